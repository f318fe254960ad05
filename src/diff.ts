import { getOriginalDoc, unifiedMergeView, updateOriginalDoc } from '@codemirror/merge';
import { ChangeSet, Compartment, EditorState, Extension } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import {
  CodeMirrorEditor,
  IEditorLanguageRegistry,
  jupyterTheme
} from '@jupyterlab/codemirror';
import { DisposableDelegate, IDisposable } from '@lumino/disposable';

import { ISides, rebase } from './rebase';

/** How long after the last change of the text the server is asked again. */
const QUIET = 300;

/** Where the inline diff of an editor is put, so that showing it again adds nothing. */
const places = new WeakMap<CodeMirrorEditor, Compartment>();

/** A diff to look at: unchanged lines folded, words within a line marked. */
export async function showDiff(
  parent: HTMLElement,
  before: string,
  after: string,
  languageName: string,
  languages: IEditorLanguageRegistry,
  label: string
): Promise<IDisposable> {
  const spec = languages.findByName(languageName) ?? languages.findByMIME(languageName);
  const language = spec && (await languages.getLanguage(spec));
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: after,
      extensions: [
        jupyterTheme,
        language?.support ?? [],
        EditorView.lineWrapping,
        EditorView.editable.of(false),
        EditorState.readOnly.of(true),
        EditorView.contentAttributes.of({ 'aria-label': label, tabindex: '0' }),
        merge(before, true)
      ]
    })
  });
  return new DisposableDelegate(() => view.destroy());
}

/**
 * The same inside the live editor of a cell. The text stays shared and editable.
 *
 * @param ask - Asks the server what the cell would say without the change; null if nothing is left.
 */
export async function showInline(
  editor: CodeMirrorEditor,
  ask: () => Promise<ISides | null>
): Promise<IDisposable | null> {
  const first = await ask();
  if (first === null || editor.isDisposed) {
    return null;
  }
  let sides = first;
  let asked = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const view = editor.editor;
  let place = places.get(editor);

  // P8: what a person types is on both sides, at once; the server confirms it when they pause.
  const draw = (): void => {
    if (editor.isDisposed || !place!.get(view.state)) {
      return;
    }
    const wanted = rebase(sides.now, sides.undone, view.state.doc.toString());
    const old = getOriginalDoc(view.state);
    if (wanted !== old.toString()) {
      const doc = view.state.toText(wanted);
      const changes = ChangeSet.of({ from: 0, to: old.length, insert: doc }, old.length);
      view.dispatch({ effects: updateOriginalDoc.of({ doc, changes }) });
    }
  };
  const refresh = async (): Promise<void> => {
    const number = ++asked;
    const answer = await ask();
    if (answer !== null && number === asked) {
      sides = answer;
      draw();
    }
  };
  const extension: Extension = [
    merge(rebase(sides.now, sides.undone, view.state.doc.toString()), false),
    EditorView.updateListener.of(update => {
      if (update.docChanged) {
        clearTimeout(timer);
        timer = setTimeout(() => void refresh(), QUIET);
        queueMicrotask(draw);
      }
    })
  ];
  if (place) {
    view.dispatch({ effects: place.reconfigure(extension) });
  } else {
    place = new Compartment();
    places.set(editor, place);
    editor.injectExtension(place.of(extension));
  }
  return new DisposableDelegate(() => {
    clearTimeout(timer);
    asked += 1;
    if (!editor.isDisposed) {
      view.dispatch({ effects: place.reconfigure([]) });
    }
  });
}

function merge(original: string, fold: boolean): Extension {
  return unifiedMergeView({
    original,
    mergeControls: false,
    gutter: true,
    allowInlineDiffs: true,
    ...(fold && { collapseUnchanged: { margin: 2, minSize: 4 } })
  });
}

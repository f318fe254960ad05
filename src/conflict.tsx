import { Dialog, showDialog } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { ReactWidget } from '@jupyterlab/ui-components';
import { IDisposable } from '@lumino/disposable';
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { showDiff } from './diff';
import { ICellDiff } from './protocol';

interface IProps {
  what: 'undo' | 'merge';
  diffs: readonly ICellDiff[];
  message: string;
  languages: IEditorLanguageRegistry;
  trans: TranslationBundle;
}

/** Show all sides of a conflict, and ask whether to go ahead with the others' words kept. */
export async function askForce(props: IProps): Promise<boolean> {
  const { trans } = props;
  const undo = props.what === 'undo';
  const typing = undo && !props.diffs.some(each => each.conflict);
  const body = ReactWidget.create(<Conflict {...props} />);
  body.addClass('jp-McpConflict');
  const answer = await showDialog({
    title: typing
      ? trans.__('Somebody is typing here')
      : undo
        ? trans.__('Others have written here')
        : trans.__('Others have changed the same'),
    body,
    defaultButton: 0,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Leave it') }),
      Dialog.warnButton({
        label: typing
          ? trans.__('Undo all the same')
          : undo
            ? trans.__('Undo, keep their words')
            : trans.__('Let the proposal win')
      })
    ]
  });
  return answer.button.accept;
}

function Conflict(props: IProps): JSX.Element {
  const { trans } = props;
  const undo = props.what === 'undo';
  const heading = undo
    ? trans.__('What the undo would change')
    : trans.__('What the merge would change');
  return (
    <>
      <p>{props.message}</p>
      {props.diffs.map(diff => {
        const sides = diff.conflict_text;
        return (
          <section key={diff.cell_id} aria-label={diff.name}>
            <h4>{diff.name || trans.__('The text')}</h4>
            {diff.notes.map(note => (
              <p key={note}>{note}</p>
            ))}
            <h5>{heading}</h5>
            <Text
              {...props}
              heading={heading}
              diff={diff}
              before={diff.now ?? ''}
              after={(undo ? diff.undone : diff.after) ?? ''}
            />
            {sides && (
              <div className="jp-McpConflict-sides">
                {undo && <Side title={trans.__('The agent wrote')} text={sides.base} />}
                <Side title={trans.__('It says now')} text={sides.theirs} />
                <Side
                  title={undo ? trans.__('Before the agent') : trans.__('The proposal')}
                  text={sides.yours}
                />
              </div>
            )}
          </section>
        );
      })}
    </>
  );
}

function Side(props: { title: string; text: string }): JSX.Element {
  return (
    <div>
      <h5>{props.title}</h5>
      <pre tabIndex={0}>{props.text}</pre>
    </div>
  );
}

function Text(
  props: IProps & { heading: string; diff: ICellDiff; before: string; after: string }
): JSX.Element {
  const host = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    let view: IDisposable | undefined;
    let gone = false;
    void showDiff(
      host.current!,
      props.before,
      props.after,
      props.diff.language,
      props.languages,
      props.heading
    ).then(made => {
      if (gone) {
        made.dispose();
      } else {
        view = made;
      }
    });
    return () => {
      gone = true;
      view?.dispose();
    };
  }, []);
  return <div ref={host} className="jp-McpDiff-text" />;
}

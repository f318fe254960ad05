import { Dialog, showDialog } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { ReactWidget } from '@jupyterlab/ui-components';
import { IDisposable } from '@lumino/disposable';
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { showDiff } from './diff';
import { ICellDiff } from './protocol';

interface IProps {
  diffs: readonly ICellDiff[];
  message: string;
  languages: IEditorLanguageRegistry;
  trans: TranslationBundle;
}

/** Show all sides of a conflict, and ask whether to go ahead with the others' words kept. */
export async function askForce(title: string, props: IProps): Promise<boolean> {
  const body = ReactWidget.create(<Conflict {...props} />);
  body.addClass('jp-McpConflict');
  const answer = await showDialog({
    title,
    body,
    defaultButton: 0,
    buttons: [
      Dialog.cancelButton({ label: props.trans.__('Leave it') }),
      Dialog.warnButton({ label: props.trans.__('Undo, keep their words') })
    ]
  });
  return answer.button.accept;
}

function Conflict(props: IProps): JSX.Element {
  const { trans } = props;
  return (
    <>
      <p>{props.message}</p>
      {props.diffs.map(diff => {
        const sides = diff.conflict_text;
        return (
          <section key={diff.cell_id} aria-label={diff.name}>
            <h4>{diff.name || trans.__('The text')}</h4>
            {diff.undone !== null && diff.now !== null && (
              <>
                <h5>{trans.__('What the undo would change')}</h5>
                <Text {...props} diff={diff} before={diff.now} after={diff.undone} />
              </>
            )}
            {sides && (
              <div className="jp-McpConflict-sides">
                <Side title={trans.__('The agent wrote')} text={sides.base} />
                <Side title={trans.__('It says now')} text={sides.theirs} />
                <Side title={trans.__('Before the agent')} text={sides.yours} />
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
  props: IProps & { diff: ICellDiff; before: string; after: string }
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
      props.trans.__('What the undo would change')
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

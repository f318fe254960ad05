import { JupyterFrontEnd } from '@jupyterlab/application';
import {
  Dialog,
  ICommandPalette,
  IToolbarWidgetRegistry,
  MainAreaWidget,
  Notification,
  showDialog
} from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { INotebookTracker, NotebookPanel } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { TranslationBundle } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';

import { Api } from './api';
import { addCommands, CommandIDs } from './commands';
import { Documents } from './documents';
import { Feed } from './feed';
import { Follower } from './follow';
import { agentIcon } from './icons';
import type { NotebookMarks } from './marks';
import { AgentsModel } from './model';
import { Notifier, Wish } from './notify';
import type { IPanelContext } from './panel/parts';
import { IProposal, IState } from './protocol';
import { IAsk, Reviews } from './reviews';
import type { Sidebar } from './sidebar';
import { AgentsStatus, ChangesButton } from './status';
import { Words } from './words';

/** What JupyterLab gives us. */
export interface IParts {
  app: JupyterFrontEnd;
  api: Api;
  manager: IDocumentManager;
  notebooks: INotebookTracker;
  languages: IEditorLanguageRegistry;
  trans: TranslationBundle;
  sidebar: Sidebar;
  palette: ICommandPalette | null;
  settings: Promise<ISettingRegistry.ISettings> | null;
  statusBar: IStatusBar | null;
  toolbars: IToolbarWidgetRegistry | null;
}

/** Everything that a person sees; begun only on a server that knows agents. */
export function start(parts: IParts, state: IState): IDisposable {
  const { app, api, notebooks, languages, trans, sidebar } = parts;
  const { commands, shell, serviceManager } = app;
  const words = new Words(trans);
  const model = new AgentsModel();
  model.apply(state);
  const wishes = {
    marks: true,
    review: true,
    follow: 'documents',
    notifications: 'important'
  };
  const review = (): boolean => wishes.review;

  const ask: IAsk = {
    force: async (what, diffs, message) => {
      const { askForce } = await import('./conflict');
      return askForce({ what, diffs, message, languages, trans });
    },
    confirm: async (title, message, button) => {
      const answer = await showDialog({
        title,
        body: message,
        buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: button })]
      });
      return answer.button.accept;
    },
    info: message => void Notification.info(message, { autoClose: 5000 }),
    error: message => void Notification.error(message, { autoClose: 10000 })
  };
  const reviews = new Reviews(api, model, ask, trans);
  const documents = new Documents(app, parts.manager, notebooks);
  const follower = new Follower(model, (path, cellId) =>
    documents.follow(path, cellId, wishes.follow === 'documents')
  );

  const context: IPanelContext = {
    model,
    reviews,
    words,
    documents,
    follower,
    languages,
    review,
    confirm: ask.confirm,
    openBeside: async (proposal: IProposal) => {
      const { makeProposal } = await import('./panel/body');
      const widget = new MainAreaWidget({ content: makeProposal(context, proposal) });
      widget.id = `collaboration-mcp-proposal-${proposal.id}`;
      widget.title.label = proposal.title;
      widget.title.icon = agentIcon;
      widget.title.closable = true;
      shell.add(widget, 'main', { mode: 'split-right' });
    }
  };

  sidebar.begin(async () => {
    const { makeBody } = await import('./panel/body');
    return makeBody(context);
  });
  if (sidebar.parent === null) {
    shell.add(sidebar, 'right', { rank: 850 }); // else the saved layout has put it there
  }

  const marks = new Map<NotebookPanel, NotebookMarks>();
  const mark = (): void => {
    const wanted = wishes.marks && wishes.review;
    notebooks.forEach(panel => {
      const marked = marks.get(panel);
      if (marked && !wanted) {
        marks.delete(panel);
        marked.dispose();
      } else if (
        !marked &&
        wanted &&
        panel.content.model &&
        model.openCount(panel.context.localPath)
      ) {
        void loadMarks(panel);
      }
    });
  };
  const loadMarks = async (panel: NotebookPanel): Promise<void> => {
    const { NotebookMarks } = await import('./marks');
    await panel.revealed;
    if (!panel.isDisposed && !marks.has(panel) && wishes.marks && wishes.review) {
      const made = new NotebookMarks(panel, { model, reviews, words, languages });
      marks.set(panel, made);
      panel.disposed.connect(() => {
        made.dispose();
        marks.delete(panel);
      });
    }
  };

  let revision = -1;
  const update = (): void => {
    if (model.reviewRevision !== revision) {
      revision = model.reviewRevision;
      sidebar.count = review() ? model.openCount() : 0;
      mark();
      for (const id of [CommandIDs.next, CommandIDs.keepCell, CommandIDs.undoCell]) {
        commands.notifyCommandChanged(id);
      }
    }
  };
  const again = (): void => {
    revision = -1;
    update();
  };
  notebooks.widgetAdded.connect((_, panel) => {
    void panel.context.ready.then(again);
    panel.context.pathChanged.connect(again);
  });

  addCommands(commands, parts.palette, {
    ...context,
    showPanel: () => shell.activateById(sidebar.id),
    toggleDiff: async (panel, cellId) => marks.get(panel)?.mark(cellId)?.toggle()
  });
  model.changed.connect(update);
  update();

  new Notifier(
    model,
    words,
    () => wishes.notifications as Wish,
    () => shell.activateById(sidebar.id)
  );

  parts.statusBar?.registerStatusItem('collaboration-mcp:status', {
    align: 'right',
    rank: 30,
    isActive: () =>
      model.agents.some(agent => agent.connected) || (review() && model.openCount() > 0),
    activeStateChanged: model.changed as never,
    item: new AgentsStatus({
      model,
      reviews,
      words,
      follower,
      review,
      act: () => commands.execute(CommandIDs.show)
    })
  });
  parts.toolbars?.addFactory<NotebookPanel>(
    'Notebook',
    'agent-changes',
    panel =>
      new ChangesButton({
        model,
        reviews,
        words,
        review,
        path: () => panel.context.localPath,
        show: () => commands.execute(CommandIDs.show),
        next: () => commands.execute(CommandIDs.next)
      })
  );

  void parts.settings?.then(settings => {
    const read = (): void => {
      Object.assign(wishes, settings.composite);
      again();
      reviews.announce();
    };
    settings.changed.connect(read);
    read();
  });
  return new Feed(serviceManager.serverSettings, model);
}

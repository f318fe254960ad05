import {
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { INotebookTracker } from '@jupyterlab/notebook';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { Api } from './api';
import { IState } from './protocol';
import { Refused } from './refused';
import { Sidebar } from './sidebar';

const ID = '@jupyter-collaboration-mcp/panel:panel';

/** How long a server that could not answer is left alone. */
const PAUSE = 5000;

/** The state; null on a server without our extension, or if this person may not see agents. */
async function ask(api: Api): Promise<IState | null> {
  for (;;) {
    try {
      return await api.state();
    } catch (error) {
      if (error instanceof Refused && error.status < 500) {
        return null;
      }
      await new Promise(resolve => setTimeout(resolve, PAUSE));
    }
  }
}

const panel: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Shows agents: what they do, and what they changed, to keep or to undo.',
  autoStart: true,
  requires: [INotebookTracker, IDocumentManager, IEditorLanguageRegistry],
  optional: [
    ICommandPalette,
    ILayoutRestorer,
    ISettingRegistry,
    IStatusBar,
    IToolbarWidgetRegistry,
    ITranslator
  ],
  activate: (
    app: JupyterFrontEnd,
    notebooks: INotebookTracker,
    manager: IDocumentManager,
    languages: IEditorLanguageRegistry,
    palette: ICommandPalette | null,
    restorer: ILayoutRestorer | null,
    registry: ISettingRegistry | null,
    statusBar: IStatusBar | null,
    toolbars: IToolbarWidgetRegistry | null,
    translator: ITranslator | null
  ): void => {
    const api = new Api(app.serviceManager.serverSettings);
    const settings = registry?.load(ID) ?? null;
    settings?.catch(error =>
      console.warn('The settings of the agents are missing.', error)
    );
    const trans = (translator ?? nullTranslator).load('jupyter_collaboration_mcp');
    // Only the saved layout shows it before the server has answered: JupyterLab waits for nothing.
    const sidebar = new Sidebar(trans);
    restorer?.add(sidebar, sidebar.id);
    const begin = async (): Promise<void> => {
      const state = await ask(api);
      if (state === null) {
        sidebar.dispose();
        return;
      }
      const { start } = await import('./app');
      start(
        {
          app,
          api,
          manager,
          notebooks,
          languages,
          trans,
          sidebar,
          palette,
          settings,
          statusBar,
          toolbars
        },
        state
      );
    };
    void begin();
  }
};

export default panel;

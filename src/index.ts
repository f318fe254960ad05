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

const ID = '@jupyter-collaboration-mcp/panel:panel';

/** How long JupyterLab's layout waits for the server: after that the panel comes by itself. */
const PATIENCE = 500;

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
  activate: async (
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
  ): Promise<void> => {
    const api = new Api(app.serviceManager.serverSettings);
    const settings = registry?.load(ID) ?? null;
    settings?.catch(error =>
      console.warn('The settings of the agents are missing.', error)
    );
    const begin = async (): Promise<void> => {
      const state = await ask(api);
      if (state === null) {
        return;
      }
      const { start } = await import('./app');
      const trans = (translator ?? nullTranslator).load('jupyter_collaboration_mcp');
      start(
        {
          app,
          api,
          manager,
          notebooks,
          languages,
          trans,
          palette,
          restorer,
          settings,
          statusBar,
          toolbars
        },
        state
      );
    };
    // In time, a sidebar that was open when the page was left is opened again.
    await Promise.race([begin(), new Promise(resolve => setTimeout(resolve, PATIENCE))]);
  }
};

export default panel;

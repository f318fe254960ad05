import { ICommandPalette } from '@jupyterlab/apputils';
import { NotebookPanel } from '@jupyterlab/notebook';
import { CommandRegistry } from '@lumino/commands';

import { Documents, reveal } from './documents';
import { Follower } from './follow';
import { agentIcon } from './icons';
import { AgentsModel } from './model';
import { IPlace, placesOf } from './places';
import { Reviews } from './reviews';
import { Words } from './words';

export const CommandIDs = {
  show: 'collaboration-mcp:show-panel',
  stopAll: 'collaboration-mcp:stop-all',
  stopFollowing: 'collaboration-mcp:stop-following',
  next: 'collaboration-mcp:next-change',
  previous: 'collaboration-mcp:previous-change',
  diff: 'collaboration-mcp:toggle-diff',
  keepCell: 'collaboration-mcp:keep-cell',
  undoCell: 'collaboration-mcp:undo-cell',
  keepAll: 'collaboration-mcp:keep-document',
  undoAll: 'collaboration-mcp:undo-document'
} as const;

interface ICommandContext {
  model: AgentsModel;
  reviews: Reviews;
  words: Words;
  documents: Documents;
  follower: Follower;
  review: () => boolean;
  confirm: (title: string, message: string, button: string) => Promise<boolean>;
  showPanel: () => void;
  toggleDiff: (panel: NotebookPanel, cellId: string) => Promise<void>;
}

/** The commands of the panel, in the palette and behind the shortcuts. */
export function addCommands(
  commands: CommandRegistry,
  palette: ICommandPalette | null,
  context: ICommandContext
): void {
  const { model, reviews, words, documents, follower, review } = context;
  const { trans } = words;

  /** What is to be reviewed in the notebook in front, in its order. */
  const places = (): IPlace[] => {
    const panel = documents.notebooks.currentWidget;
    if (!panel || !review()) {
      return [];
    }
    const ids = panel.content.widgets.map(cell => cell.model.id);
    return placesOf(model.openChanges(panel.context.localPath), ids);
  };
  /** What is to be reviewed at the active cell: in it, else beside it. */
  const here = (): IPlace | undefined => {
    const id = documents.notebooks.activeCell?.model.id;
    const beside = places().filter(place => place.anchor === id);
    return beside.find(place => place.side === 'in') ?? beside[0];
  };
  const go = async (step: 1 | -1): Promise<void> => {
    const panel = documents.notebooks.currentWidget;
    const all = places();
    if (!panel || !all.length) {
      const [call] = review() ? model.open().filter(each => each.path !== null) : [];
      if (call) {
        await documents.show(call.path!, call.cells[0]?.cell_id ?? null);
      }
      return;
    }
    const notebook = panel.content;
    const order = new Map(notebook.widgets.map((cell, index) => [cell.model.id, index]));
    const at = (place: IPlace): number => order.get(place.anchor)!;
    const active = notebook.activeCellIndex;
    const target =
      step > 0
        ? (all.find(place => at(place) > active) ?? all[0])
        : (all.filter(place => at(place) < active).pop() ?? all[all.length - 1]);
    notebook.mode = 'command';
    notebook.activeCellIndex = at(target);
    notebook.deselectAll();
    await reveal(notebook, target.anchor);
    notebook.activate(); // the keys that keep and undo belong to the notebook
  };
  const reviewHere = async (verdict: 'keep' | 'undo'): Promise<void> => {
    const place = here();
    const path = documents.notebooks.currentWidget?.context.localPath;
    if (place && path !== undefined) {
      await reviews.cell(path, place.cellId, verdict);
    }
  };
  const openHere = (): boolean => {
    const path = documents.currentPath;
    return review() && path !== null && model.openCount(path) > 0;
  };

  commands.addCommand(CommandIDs.show, {
    label: trans.__('Show Agents'),
    icon: agentIcon,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => context.showPanel()
  });
  commands.addCommand(CommandIDs.stopAll, {
    label: trans.__('Stop All Agents'),
    caption: trans.__('Interrupt the runs of all agents and refuse their calls'),
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => reviews.guard(() => reviews.api.stopAll())
  });
  commands.addCommand(CommandIDs.stopFollowing, {
    label: trans.__('Stop Following the Agent'),
    isEnabled: () => follower.following !== null,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => follower.follow(null)
  });
  commands.addCommand(CommandIDs.next, {
    label: trans.__('Next Agent Change'),
    isEnabled: () => review() && model.openCount() > 0,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => go(1)
  });
  commands.addCommand(CommandIDs.previous, {
    label: trans.__('Previous Agent Change'),
    isEnabled: () => review() && model.openCount() > 0,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => go(-1)
  });
  commands.addCommand(CommandIDs.diff, {
    label: trans.__('Show or Hide the Diff of the Agent Change in This Cell'),
    isEnabled: () => here() !== undefined,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: async () => {
      const place = here();
      const panel = documents.notebooks.currentWidget;
      if (place && panel) {
        await context.toggleDiff(panel, place.cellId);
      }
    }
  });
  commands.addCommand(CommandIDs.keepCell, {
    label: trans.__('Keep the Agent Change in This Cell'),
    isEnabled: () => here() !== undefined,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => reviewHere('keep')
  });
  commands.addCommand(CommandIDs.undoCell, {
    label: trans.__('Undo the Agent Change in This Cell'),
    isEnabled: () => here() !== undefined,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => reviewHere('undo')
  });
  commands.addCommand(CommandIDs.keepAll, {
    label: trans.__('Keep All Agent Changes in This Document'),
    isEnabled: openHere,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => {
      const path = documents.currentPath!;
      return reviews.all('keep', model.open(path), path);
    }
  });
  commands.addCommand(CommandIDs.undoAll, {
    label: trans.__('Undo All Agent Changes in This Document'),
    isEnabled: openHere,
    describedBy: { args: { type: 'object', properties: {} } },
    execute: async () => {
      const path = documents.currentPath!;
      const calls = model.open(path);
      const sure = await context.confirm(
        trans.__('Undo all changes?'),
        trans.__('All open changes of agents in %1 are undone.', path),
        trans.__('Undo all')
      );
      if (sure) {
        await reviews.all('undo', calls, path);
      }
    }
  });
  for (const command of Object.values(CommandIDs)) {
    palette?.addItem({ command, category: trans.__('Agents') });
  }
}

import { LabIcon } from '@jupyterlab/ui-components';

export const agentIcon = new LabIcon({
  name: 'jupyter-collaboration-mcp:agent',
  svgstr:
    '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24"><g class="jp-icon3" fill="#616161"><path d="M11 2h2v3h4a3 3 0 0 1 3 3v9a3 3 0 0 1-3 3h-2l-3 3-3-3H7a3 3 0 0 1-3-3V8a3 3 0 0 1 3-3h4zM7 7a1 1 0 0 0-1 1v9a1 1 0 0 0 1 1h10a1 1 0 0 0 1-1V8a1 1 0 0 0-1-1zm1.500 3h2v3h-2zm5 0h2v3h-2z"/></g></svg>'
});

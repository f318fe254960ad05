// A person's tab with the real yjs, as JupyterLab has it: it refuses what yjs refuses.
//
//   node client.mjs read SERVER PATH    join, print the cells as yjs sees them, leave
//   node client.mjs watch SERVER PATH   stay, come back after the server died, obey stdin
//
// The token is in JUPYTER_TOKEN. It speaks JSON lines: {"event": ...} when something happened
// and, in mode watch, {"id": n, ...} in answer to {"id": n, "cmd": ...}.

import { createInterface } from "node:readline";
import * as decoding from "lib0/decoding";
import * as encoding from "lib0/encoding";
import WebSocket from "ws";
import * as awarenessProtocol from "y-protocols/awareness";
import * as syncProtocol from "y-protocols/sync";
import * as Y from "yjs";

const SYNC = 0;
const AWARENESS = 1;
const REMOTE = Symbol("remote");

const [mode, server, firstPath] = process.argv.slice(2);
let path = firstPath; // it may be renamed
const headers = { Authorization: `token ${process.env.JUPYTER_TOKEN}` };

const doc = new Y.Doc();
const cells = doc.getArray("cells");
const awareness = new awarenessProtocol.Awareness(doc);
awareness.setLocalState({
  user: { username: "yjs", name: "Yjs", display_name: "Yjs", initials: "YJ", avatar_url: null },
  autosave: true,
});

let socket = null; // the one in sync with the server
let opened = null; // the same, from its first moment: what is written while it syncs is sent too
let connections = 0;
let questions = []; // answered in order by the server; the first is the one asked on joining
let waiting = []; // conditions looked at again after every change

const print = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

function frame(type, write) {
  const encoder = encoding.createEncoder();
  encoding.writeVarUint(encoder, type);
  write(encoder);
  return encoding.toUint8Array(encoder);
}

const question = () => frame(SYNC, (encoder) => syncProtocol.writeSyncStep1(encoder, doc));

const presence = (clients) =>
  frame(AWARENESS, (encoder) =>
    encoding.writeVarUint8Array(
      encoder,
      awarenessProtocol.encodeAwarenessUpdate(awareness, clients),
    ),
  );

doc.on("update", (update, origin) => {
  if (origin !== REMOTE) {
    opened?.send(frame(SYNC, (encoder) => syncProtocol.writeUpdate(encoder, update)));
  }
  lookAgain();
});

awareness.on("update", ({ added, updated, removed }, origin) => {
  if (origin === "local") {
    socket?.send(presence([...added, ...updated, ...removed]));
  }
});

function lookAgain() {
  const held = waiting.filter(({ holds }) => holds());
  waiting = waiting.filter((one) => !held.includes(one));
  for (const { resolve } of held) resolve();
}

function until(holds) {
  return new Promise((resolve) => {
    waiting.push({ holds, resolve });
    lookAgain();
  });
}

function receive(websocket, data) {
  const decoder = decoding.createDecoder(data);
  switch (decoding.readVarUint(decoder)) {
    case SYNC: {
      const kind = data[1];
      const reply = frame(SYNC, (encoder) =>
        syncProtocol.readSyncMessage(decoder, encoder, doc, REMOTE, (error) => {
          throw error;
        }),
      );
      if (reply.length > 1) websocket.send(reply);
      if (kind === syncProtocol.messageYjsSyncStep2) {
        if (socket === null) {
          socket = websocket;
          connections += 1;
          socket.send(presence([doc.clientID]));
          print({ event: "synced", connections });
        }
        questions.shift()(true);
      }
      break;
    }
    case AWARENESS:
      awarenessProtocol.applyAwarenessUpdate(
        awareness,
        decoding.readVarUint8Array(decoder),
        REMOTE,
      );
      break;
  }
  lookAgain();
}

async function connectOnce() {
  const quoted = path.split("/").map(encodeURIComponent).join("/");
  const response = await fetch(`${server}/api/collaboration/session/${quoted}`, {
    method: "PUT",
    headers: { ...headers, "Content-Type": "application/json" },
    body: JSON.stringify({ format: "json", type: "notebook" }),
  });
  if (!response.ok) throw new Error(`session: ${response.status} ${await response.text()}`);
  const session = await response.json();
  // The colons stay as they are: an id with %3A silently is another, empty room.
  const room = `${session.format}:${session.type}:${session.fileId}`;
  const url = `${server.replace(/^http/, "ws")}/api/collaboration/room/${room}`;
  const websocket = new WebSocket(`${url}?sessionId=${session.sessionId}`, { headers });
  websocket.binaryType = "nodebuffer";
  await new Promise((resolve, reject) => {
    websocket.on("open", () => {
      questions = [() => {}];
      websocket.send(question());
      opened = websocket;
    });
    websocket.on("message", (data) => {
      try {
        receive(websocket, data);
      } catch (error) {
        // What throws here would throw in the page: nothing may go on as if it had not.
        print({ event: "error", error: String(error.stack) });
        process.exit(1);
      }
    });
    websocket.on("error", reject);
    websocket.on("close", resolve);
  });
}

async function stayConnected() {
  for (;;) {
    try {
      await connectOnce();
    } catch (error) {
      print({ event: "disconnected", error: String(error) });
    }
    socket = null;
    opened = null;
    for (const answer of questions.splice(0)) answer(false);
    await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 200));
  }
}

/** Wait until the server applied all that was sent: it answers questions in order. */
async function flush() {
  for (;;) {
    await until(() => socket !== null);
    const answered = new Promise((resolve) => questions.push(resolve));
    socket.send(question());
    if (await answered) return;
  }
}

/** A leaving tab says so; otherwise its name would stay for 30 seconds. */
async function leave() {
  if (socket !== null) {
    awareness.setLocalState(null);
    await new Promise((resolve) => socket.send(presence([doc.clientID]), resolve));
  }
  // A large notebook takes more than one write to a pipe; leaving at once would cut it.
  process.stdout.write("", () => process.exit(0));
}

const view = () => ({
  cells: cells.map((cell) => [cell.get("id"), cell.get("source").toString()]),
  pending: doc.store.pendingStructs !== null || doc.store.pendingDs !== null,
});

const find = (id) => cells.toArray().find((cell) => cell.get("id") === id);

const commands = {
  cells: view,
  async type({ cell, text, position }) {
    await until(() => find(cell) !== undefined);
    const source = find(cell).get("source");
    source.insert(position ?? source.length, text);
    return {};
  },
  /** Write right before a text; false if it is not there. */
  write({ cell, before, text }) {
    const source = find(cell)?.get("source");
    const position = source?.toString().indexOf(before) ?? -1;
    if (position >= 0) source.insert(position, text);
    return { done: position >= 0 };
  },
  /** Delete a text; false if it is not there. */
  cut({ cell, text }) {
    const source = find(cell)?.get("source");
    const position = source?.toString().indexOf(text) ?? -1;
    if (position >= 0) source.delete(position, text.length);
    return { done: position >= 0 };
  },
  /** Come back under another name from now on. */
  rename({ path: renamed }) {
    path = renamed;
    return {};
  },
  async wait({ contains }) {
    await until(() => view().cells.some(([, source]) => source.includes(contains)));
    return view();
  },
  async connections({ atLeast }) {
    await until(() => socket !== null && connections >= atLeast);
    return { connections };
  },
  async flush() {
    await flush();
    return {};
  },
  users: () => ({
    users: [...awareness.getStates().values()].flatMap(({ user }) => (user ? [user] : [])),
  }),
};

stayConnected();
if (mode === "read") {
  await until(() => connections > 0);
  print({ event: "view", ...view() });
  await leave();
} else {
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    Promise.resolve(commands[command.cmd](command)).then(
      (answer) => print({ id: command.id, ...answer }),
      (error) => print({ id: command.id, error: String(error.stack) }),
    );
  }
  await leave();
}

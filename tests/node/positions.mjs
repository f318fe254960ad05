// Says where yjs finds relative positions: what a browser would draw.
// Reads a list of {update, name, positions} from stdin, and prints a list of lists of indexes.
import { readFileSync } from "node:fs";
import * as Y from "yjs";

const documents = JSON.parse(readFileSync(0, "utf8"));
const found = documents.map(({ update, name, positions }) => {
  const doc = new Y.Doc();
  Y.applyUpdate(doc, Uint8Array.from(update));
  const text = doc.getText(name);
  return positions.map((position) => {
    const relative = Y.createRelativePositionFromJSON(position);
    const absolute = Y.createAbsolutePositionFromRelativePosition(relative, doc);
    return absolute?.type === text ? absolute.index : null;
  });
});
process.stdout.write(JSON.stringify(found));

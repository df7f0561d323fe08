// Kills a program after a number of executed lines: node --import kill.mjs PROGRAM,
// with COAX_TEST_KILL_AFTER and COAX_TEST_PROGRAM in the environment.
//
// A breakpoint is set at the first place of each line where V8 can break. Its condition
// counts and never holds, so that nothing pauses.
import { Session } from "node:inspector";
import { pathToFileURL } from "node:url";

let left = Number(process.env.COAX_TEST_KILL_AFTER);
const program = pathToFileURL(process.env.COAX_TEST_PROGRAM).href;

globalThis.executed = () => {
  left -= 1;
  if (left < 0) {
    process.kill(process.pid, "SIGKILL");
    for (;;) {
      // The signal arrives while this runs, and not after the next statement.
    }
  }
  return false;
};

const session = new Session();
session.connect();
session.post("Debugger.enable");
session.on("Debugger.scriptParsed", ({ params: { url, scriptId, endLine } }) => {
  if (url !== program) {
    return;
  }
  const range = { start: { scriptId, lineNumber: 0, columnNumber: 0 }, end: { scriptId, lineNumber: endLine + 1, columnNumber: 0 } };
  session.post("Debugger.getPossibleBreakpoints", range, (error, { locations }) => {
    const lines = new Set();
    for (const location of locations) {
      if (lines.has(location.lineNumber)) {
        continue;
      }
      lines.add(location.lineNumber);
      session.post("Debugger.setBreakpoint", { location, condition: "executed()" });
    }
  });
});

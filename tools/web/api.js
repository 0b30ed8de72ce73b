// Requests to the server. Answers are cached until newer data is requested, so that going back is fast.

const KEPT = 24;
const answers = new Map();
let pending = 0;

export function forget() {
  answers.clear();
}

// Addresses that the answers since the last call show without a name, because the server still reads symbol files.
export function takePendingNames() {
  const count = pending;
  pending = 0;
  return count;
}

async function ask(path) {
  let response;
  try {
    response = await fetch(path);
  } catch {
    throw new Error('The server cannot be reached. Is `edgeprof serve` still running? Click Refresh to retry.');
  }
  let body;
  try {
    body = await response.json();
  } catch {
    throw new Error(`The server's answer cannot be read (status ${response.status}). Click Refresh to retry.`);
  }
  if (!response.ok) {
    const error = new Error(`${body.error ?? `status ${response.status}`}${response.status >= 500 ? ' Click Refresh to retry.' : ''}`);
    error.status = response.status;
    error.pending = body.names_pending ?? 0;
    throw error;
  }
  return body;
}

export function get(path) {
  if (!answers.has(path)) {
    const answer = ask(path);
    answers.set(path, answer);
    answer.then((body) => {
      if (body.names_pending) {
        pending += body.names_pending;
        answers.delete(path);
      }
    }, (error) => {
      pending += error.pending ?? 0;
      answers.delete(path);
    });
    if (answers.size > KEPT) {
      answers.delete(answers.keys().next().value);
    }
  }
  return answers.get(path);
}

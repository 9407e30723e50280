// The page of an outage asks for its address until there is an answer, and then shows it.

const often = 5000; // milliseconds

async function ask() {
  const answer = document.hidden ? undefined : await fetch(location.href).catch(() => undefined);
  if (answer && answer.status < 500) location.reload();
  else setTimeout(ask, often);
}

if (document.querySelector('[data-retry]')) setTimeout(ask, often);

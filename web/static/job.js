// Starts the next step of a long job automatically while its tab is visible. Without
// scripts there is a button. Only the page of a job that this session started has such a
// form; links from elsewhere wait for a click.

const form = document.querySelector('form[data-auto]');

function goOn() {
  if (!document.hidden) form.requestSubmit();
}

if (form) {
  if (document.hidden) document.addEventListener('visibilitychange', goOn, { once: true });
  else goOn();
}

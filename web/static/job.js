// A step of a long job goes on with the next by itself, while its tab is shown. Without a
// script there is a button. Only the page of a job that this session started has such a
// form: a link from elsewhere gets one that waits for a click.

const form = document.querySelector('form[data-auto]');

function goOn() {
  if (!document.hidden) form.requestSubmit();
}

if (form) {
  if (document.hidden) document.addEventListener('visibilitychange', goOn, { once: true });
  else goOn();
}

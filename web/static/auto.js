// Submits a form with data-auto while its tab is visible: the next step of a change of many
// keys, or the form of resume.js. Without scripts the user clicks its button.

const form = document.querySelector('form[data-auto]');

function submitWhenVisible() {
  if (!document.hidden) form.requestSubmit();
}

if (form) {
  if (document.hidden) document.addEventListener('visibilitychange', submitWhenVisible, { once: true });
  else submitWhenVisible();
}

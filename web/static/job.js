// Submits a form with data-auto while its tab is visible: the next step of a job, or the
// form of resume.js. Without scripts the user clicks its button. A job's form has
// data-auto only in the session that started the job.

const form = document.querySelector('form[data-auto]');

function submitWhenVisible() {
  if (!document.hidden) form.requestSubmit();
}

if (form) {
  if (document.hidden) document.addEventListener('visibilitychange', submitWhenVisible, { once: true });
  else submitWhenVisible();
}

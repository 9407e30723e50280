// The server stores the theme in a cookie. This script changes it without a reload, which
// would lose typed input.

const form = document.getElementById('theme');

function show(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  for (const button of form.querySelectorAll('button')) button.setAttribute('aria-pressed', button.value === name);
  document.dispatchEvent(new Event('theme'));
}

form.addEventListener('submit', async (event) => {
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form, event.submitter));
  show(body.get('theme'));
  const saved = await fetch(form.action, { method: 'POST', body, redirect: 'manual' }).catch(() => undefined);
  if (saved?.type !== 'opaqueredirect') {
    const detail = { text: 'The server is not responding. The theme is not saved.', bad: true };
    document.dispatchEvent(new CustomEvent('toast', { detail }));
  }
});

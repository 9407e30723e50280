// Keeps the text of a form in this tab when the form is sent: the session may have ended,
// or Valkey may be unavailable. The form with data-resume shows it again, to the same user.

const typed = 'tidegate-typed';
const life = 2 * 3600 * 1000;
const never = ['password', 'secret', 'key', 'value', 'action'];
const { user } = document.body.dataset;

document.addEventListener('submit', ({ target }) => {
  if (target.matches('.who')) sessionStorage.removeItem(typed);
  if (!target.matches('form[data-keep]')) return;
  const fields = [...new FormData(target)].filter(([name, text]) => !never.includes(name) && typeof text === 'string');
  const path = target.getAttribute('action');
  sessionStorage.setItem(typed, JSON.stringify({ path, user, until: Date.now() + life, fields }));
}, true);

const form = document.querySelector('form[data-resume]');

if (form) {
  const kept = JSON.parse(sessionStorage.getItem(typed)) ?? {};
  const mine = kept.user === user && Date.now() < kept.until;
  form.hidden = !mine;
  document.getElementById('unkept').hidden = mine;
  if (mine) {
    form.setAttribute('action', kept.path);
    for (const [name, value] of kept.fields) {
      form.append(Object.assign(document.createElement('input'), { type: 'hidden', name, value }));
    }
    form.dataset.auto = '';
  }
}

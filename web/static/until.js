// An expiry is a duration or a date. A typed date selects "Custom date…", a chosen
// duration clears the date. The date is also shown in the user's time zone.

const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });

function showLocal(field) {
  const hint = document.getElementById(`${field.id}-hint`);
  if (!hint) return;
  hint.dataset.text ??= hint.textContent;
  const at = new Date(`${field.value}Z`);
  hint.textContent = field.value && !Number.isNaN(at.getTime())
    ? `${local.format(at)} in your time zone.` : hint.dataset.text;
}

document.addEventListener('input', ({ target }) => {
  const choice = target.form?.elements.lasts;
  const date = target.form?.elements.until;
  if (!choice || !date) return;
  if (target === date && date.value) choice.value = 'at';
  if (target === choice && choice.value !== 'at') date.value = '';
  if (target === choice && choice.value === 'at') date.focus();
  showLocal(date);
});

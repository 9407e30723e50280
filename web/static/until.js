// An expiry is a duration, a moment or a date. A typed date selects "Custom date…", another
// choice clears the date.

document.addEventListener('input', ({ target }) => {
  const choice = target.form?.elements.lasts;
  const date = target.form?.elements.until;
  if (!choice || !date) return;
  if (target === date && date.value) choice.value = 'at';
  if (target !== choice) return;
  if (choice.value === 'at') return date.focus();
  date.value = '';
  date.dispatchEvent(new Event('input', { bubbles: true }));
});

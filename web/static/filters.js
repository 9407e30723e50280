// Filters of lists: a choice in a select submits the form. Without a script its button does.

document.addEventListener('change', ({ target }) => {
  if (target.matches('form[data-filters] select')) target.form.requestSubmit();
});

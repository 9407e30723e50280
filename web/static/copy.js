// A button with data-copy copies the field of that id. Without scripts it stays hidden:
// the field can be selected.

for (const button of document.querySelectorAll('[data-copy]')) {
  const field = document.getElementById(button.dataset.copy);
  button.hidden = false;
  button.addEventListener('click', async () => {
    field.select();
    try {
      await navigator.clipboard.writeText(field.value);
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Copy with the keyboard'; // the text is selected
    }
  });
}

package dashboard

import (
	"context"
	"net/http"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// redirectToSecret redirects to the page that shows a new secret.
func (d *dashboard) redirectToSecret(
	w http.ResponseWriter, r *http.Request, k policy.Key, secret string,
) error {
	if err := d.StoreSecret(r, k.ID, secret); err != nil {
		return page.Failed("hand over secret", err)
	}
	if len(app.NotesOf(r.Context())) > 0 {
		d.Flash(r, "", "")
	}
	return page.Redirect(w, r, d.Path("/secrets/"+k.ID))
}

// showSecret shows a new secret once, to the user who requested it.
func (d *dashboard) showSecret(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	k, err := d.key(r)
	if err != nil { // it may not be known whether the key was saved
		k = policy.Key{ID: id, Name: id}
	}
	secret, ok := d.TakeSecret(r, id)
	if !ok {
		return page.Problem{
			Status: http.StatusGone, Heading: "This secret was shown once",
			Advice: "It cannot be shown again. Rotate the key for a new one.",
			Action: templates.Choice{Text: "Go to the key", Address: d.keyPath(k)},
		}
	}
	name := page.Clip(k.Name, page.MaxName)
	heading := "The new secret of “" + name + "”"
	if k.Created.Equal(k.Updated) {
		heading = "Key created: “" + name + "”"
	}
	advice := []string{"Send it as x-api-key, or as Authorization: Bearer."}
	if hasPreviousSecret(k, time.Now()) {
		advice = append(advice, "The previous secret works until "+page.Instant(k.Grace).Text+".")
	}
	return d.Render(w, r, http.StatusOK, templates.FormOf(templates.FormPage{
		Page: d.Page(r, heading), Trail: d.keyTrail(k), Heading: "Secret of", Name: name,
		Secret: &templates.Secret{Heading: heading, Text: secret, Advice: advice,
			Call: d.exampleCall("x-api-key: " + secret)},
	}))
}

// hasPreviousSecret reports whether the secret before the last rotation still works.
func hasPreviousSecret(k policy.Key, now time.Time) bool { return k.Grace.After(now) }

// previousSecretUse returns a sentence on when the previous secret was last used.
func (d *dashboard) previousSecretUse(ctx context.Context, k policy.Key) (string, error) {
	at, err := app.OldSecretUsed(ctx, d.Records, k.ID, time.Now())
	switch {
	case err != nil:
		return "", err
	case at.IsZero():
		return "Previous secret not used in 30 days.", nil
	}
	return "Previous secret last used " + page.Instant(at).Text + ".", nil
}

// addSecretNotes adds notes and warnings on the previous secret to the form of a rotation
// or an expiry.
func (d *dashboard) addSecretNotes(r *http.Request, action string, f *keyForm) (err error) {
	if action != app.Rotate && action != app.ExpireSecret {
		return nil
	}
	if !hasPreviousSecret(f.key, time.Now()) {
		if action == app.ExpireSecret {
			f.facts = []string{"No previous secret is valid."}
		}
		return nil
	}
	used, err := d.previousSecretUse(r.Context(), f.key)
	if err != nil {
		return err
	}
	f.facts = []string{used}
	if action == app.Rotate {
		f.warnings = d.rotationWarnings(r, f.key)
	}
	return nil
}

// rotationWarnings warns that a rotation expires the previous secret before its grace
// period ends.
func (d *dashboard) rotationWarnings(r *http.Request, k policy.Key) []string {
	name := "The previous secret"
	for _, e := range d.History(r.Context(), k.ID, k.Version) {
		if e.Action == registry.KeyRotate {
			name += ", replaced by " + page.Clip(e.By.Name, page.MaxName) + " on " +
				page.Instant(e.Time).Text + ","
			break
		}
	}
	return []string{name + " works until " + page.Instant(k.Grace).Text + ". Rotating expires it now."}
}

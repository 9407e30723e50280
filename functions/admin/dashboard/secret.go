package dashboard

import (
	"context"
	"net/http"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

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
		Secret: &templates.Secret{Heading: heading, Text: secret, Advice: advice, Key: d.keyPath(k),
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

// secretNote says what checks make of a pasted secret that is not its key's current one;
// empty for the current one and for an id.
func secretNote(found app.ResolvedKey) string {
	switch {
	case found.Dead():
		return "Calls with this secret get 401: a rotation replaced it."
	case found.Previous():
		return "Previous secret. It works until " + page.Instant(found.Key.Grace).Text + "."
	}
	return ""
}

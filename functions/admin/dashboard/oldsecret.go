package dashboard

import (
	"context"
	"net/http"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
)

// hasOldSecret reports whether the secret from before the last rotation still works.
func hasOldSecret(k policy.Key, now time.Time) bool { return k.Grace.After(now) }

// oldSecretUsed says when the old secret was last used.
func (d *dashboard) oldSecretUsed(ctx context.Context, k policy.Key) (string, error) {
	at, err := d.Usage.OldSecretUsed(ctx, k.ID, time.Now())
	switch {
	case err != nil:
		return "", err
	case at.IsZero():
		return "Old secret not used in 30 days.", nil
	}
	return "Old secret last used " + page.Instant(at).Text + ".", nil
}

// aboutSecrets notes on the form of an action what it does to the old secret.
func (d *dashboard) aboutSecrets(r *http.Request, do string, f *actionForm) (err error) {
	if do != app.Rotate && do != app.ExpireSecret {
		return nil
	}
	if !hasOldSecret(f.key, time.Now()) {
		if do == app.ExpireSecret {
			f.facts = []string{"No old secret works any more."}
		}
		return nil
	}
	used, err := d.oldSecretUsed(r.Context(), f.key)
	if err != nil {
		return err
	}
	if f.facts = []string{used}; do == app.Rotate {
		f.warnings, err = d.rotationWarnings(r, f.key)
	}
	return err
}

// rotationWarnings name the secret that a rotation ends before its time.
func (d *dashboard) rotationWarnings(r *http.Request, k policy.Key) ([]string, error) {
	rotated, err := d.Keys.Audit().List(r.Context(),
		audit.Query{Subject: k.ID, Action: audit.KeyRotate, Count: 1})
	if err != nil {
		return nil, err
	}
	name := "The old secret"
	for _, e := range rotated.Entries {
		name += ", replaced by " + page.Clip(e.By.Name, page.MaxName) + " on " +
			page.Instant(e.Time).Text + ","
	}
	return []string{name + " works until " + page.Instant(k.Grace).Text + ". This ends it now."}, nil
}

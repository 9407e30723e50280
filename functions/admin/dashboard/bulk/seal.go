package bulk

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"slices"

	"tidegate/internal/apikey"
)

// jobSeal is the key with which a session that starts a job vouches for it. All else of a
// job is in its address, which anybody can write into a link; without the seal, a link
// that an editor follows would change keys.
type jobSeal []byte

func newJobSeal(pepper apikey.Pepper) jobSeal { return pepper.Derive("jobs of the dashboard") }

// sealField is the seal's in the address.
const sealField = "seal"

// unsealed are the fields that a step changes, and the button.
var unsealed = []string{"after-key", "done", "skipped", "failed", "finished", "action", sealField}

// of seals what a job does for a session, which its token names.
func (s jobSeal) of(session string, job url.Values) string {
	said := url.Values{}
	for name, values := range job {
		if !slices.Contains(unsealed, name) {
			said[name] = slices.Sorted(slices.Values(values))
		}
	}
	mac := hmac.New(sha256.New, s)
	mac.Write([]byte(session + "\n" + said.Encode())) // neither holds a line break
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// holds reports whether the session sealed the job.
func (s jobSeal) holds(session string, job url.Values) bool {
	return session != "" && hmac.Equal([]byte(job.Get(sealField)), []byte(s.of(session, job)))
}

package form

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"

	"tidegate/web/templates"
)

// acceptedField confirms warnings: it holds their digest, so that it confirms no others.
const acceptedField = "accepted"

// Warn shows warnings with what confirms them; nil for none.
func Warn(texts []string) *templates.Warn {
	if len(texts) == 0 {
		return nil
	}
	return &templates.Warn{Texts: texts,
		Accepted: templates.Hidden{Name: acceptedField, Value: digest(texts)}}
}

// Accepted reports whether a form confirms these warnings; none need no word.
func Accepted(values url.Values, texts []string) bool {
	return len(texts) == 0 || values.Get(acceptedField) == digest(texts)
}

func digest(texts []string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return hex.EncodeToString(sum[:16])
}

package form

import (
	"regexp"
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
)

// maxInvalid bounds the text of Invalid, in characters.
const maxInvalid = 2000

var ofValue = regexp.MustCompile(`^is -?[0-9]+: `)

// Invalid describes invalid fields. It names the limits of set in words, and says once what
// is wrong with several of them.
func Invalid(set *policy.Set, fields []policy.FieldError) string {
	var messages []string
	limits := map[string][]string{}
	var words []string
	for _, f := range fields {
		limit, found := policydoc.LimitAt(set, f.Field)
		if !found {
			words = append(words, f.Field+": "+Sentence(f.Message))
			continue
		}
		message := ofValue.ReplaceAllString(f.Message, "") // the limit shows its value
		if limits[message] == nil {
			messages = append(messages, message)
		}
		limits[message] = append(limits[message], limit)
	}
	for _, m := range messages {
		words = append(words, strings.TrimSuffix(Sentence(m), ".")+": "+strings.Join(limits[m], "; ")+".")
	}
	return page.Clip(strings.Join(words, " "), maxInvalid)
}

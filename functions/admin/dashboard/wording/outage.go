package wording

import (
	"strings"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
)

// maxNamed is how many plans with the same outage setting Outage names.
const maxNamed = 5

// Outage says what each plan does with calls while Valkey does not answer.
func Outage(plans []policy.Plan) string {
	names := map[string][]string{}
	var settings []string
	for _, p := range plans {
		if p.Name == "" { // of a caller without a plan
			continue
		}
		_, setting, _ := strings.Cut(policydoc.DegradedText(p), ": ")
		if names[setting] == nil {
			settings = append(settings, setting)
		}
		names[setting] = append(names[setting], page.Clip(p.Name, page.MaxName))
	}
	if len(settings) == 0 {
		return page.Outage
	}
	parts := make([]string, len(settings))
	for i, setting := range settings {
		all := names[setting]
		more := ""
		if len(all) > maxNamed {
			more = " and " + page.Number(int64(len(all)-maxNamed)) + " more"
			all = all[:maxNamed]
		}
		parts[i] = "on " + strings.Join(all, ", ") + more + ": " + setting
	}
	return "Until it is back, " + strings.Join(parts, "; ") + "."
}

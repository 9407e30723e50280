package dashboard

import (
	"strconv"
	"strings"

	"tidegate/functions/admin/wording"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// maxName bounds a name on a page.
const maxName = 100

// nearShare is the used share, in percent, from which a limit counts as nearly full.
const nearShare = 80

// keyRow is a key and what a call of it would get now.
func (d *dashboard) keyRow(s subject, query string) templates.KeyRow {
	row := templates.KeyRow{
		ID:       s.ID,
		Name:     clip(s.Name, maxName),
		Address:  d.path("/keys/"+s.ID) + query,
		Plan:     clip(s.Plan, maxName),
		Badges:   s.badges(),
		Readable: s.Status != policy.Unreadable,
	}
	for _, tag := range s.Tags {
		row.Tags = append(row.Tags, clip(tag, policy.MaxTagLen))
	}
	for _, u := range s.now.Limits {
		row.Windows = append(row.Windows, window(u))
	}
	return row
}

func window(u limiter.Usage) templates.Window {
	share := percent(u.Used(), u.Limit.Requests)
	w := templates.Window{
		Limit:      wording.Rate(u.Limit),
		Marks:      wording.Marks(u.Limit),
		Counted:    countedWords(u.Limit),
		Used:       number(u.Used()),
		Of:         number(u.Limit.Requests),
		Remaining:  number(u.Remaining),
		Share:      strconv.Itoa(int(share)),
		Level:      "free",
		Resets:     "empty",
		RetryAfter: "now",
	}
	switch {
	case u.Remaining <= 0:
		w.Level, w.Note = "full", "full"
	case share >= nearShare:
		w.Level, w.Note = "near", strconv.Itoa(int(share))+" %"
	}
	if u.Reset > 0 {
		w.Resets = span(u.Reset)
	}
	if u.RetryAfter > 0 {
		w.RetryAfter = span(u.RetryAfter)
	}
	return w
}

// countedWords says how a limit counts: "exact, denied calls count".
func countedWords(l limiter.Limit) string {
	marks := wording.Marks(l)
	if l.Algorithm == limiter.Log {
		marks = append([]string{wording.Algorithm(l.Algorithm)}, marks...)
	}
	return strings.Join(marks, ", ")
}

// percent is rounded so that only none shows as 0 and only all as 100.
func percent(used, of int64) int64 {
	if used <= 0 || of <= 0 {
		return 0
	}
	if used >= of {
		return 100
	}
	return max(1, min(99, used*100/of))
}

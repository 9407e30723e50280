package form

import (
	"strings"
	"time"

	"tidegate/internal/limiter"
)

// LimitInput holds the typed rate of a simulated limit.
type LimitInput struct{ Requests, Window, Unit, Algorithm Input }

// Period returns the typed window. It sets the errors of invalid fields.
func (l *LimitInput) Period() time.Duration {
	unit, err := limiter.JoinWindow(1, l.Unit.Text)
	if err != nil {
		l.Unit.Error = ChooseFromList
		return 0
	}
	most := int64(limiter.MaxWindow / unit)
	count := l.Window.count("Enter the window length.", 1, most, " "+strings.TrimSuffix(l.Unit.Text, "s")+"s")
	if l.Window.Error != "" {
		return 0
	}
	return time.Duration(count) * unit
}

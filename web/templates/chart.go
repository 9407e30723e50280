package templates

// Lines is a chart of series over equal steps, drawn as SVG. With a script it gets axes
// and a cursor.
type Lines struct {
	ID      string
	Title   string
	Caption string
	Box     string // the SVG's viewBox
	Top     string // the highest figure of the axis
	Begin   string // the first and the last of the other
	End     string
	Lines   []Line
	Data    string // the same as JSON, for the script
}

// Line is a series of a chart.
type Line struct {
	Class string // how it looks: see app.css
	Title string
	Path  string
}

// TimeSeries is a chart of allowed and blocked calls over time, and the table that says
// the same.
type TimeSeries struct {
	ID      string
	Title   string
	Summary string // the chart in a sentence
	Box     string // the SVG's viewBox
	Top     string // the highest figure of the axis
	Begin   Instant
	End     Instant
	Allowed string // paths of the bars
	Blocked string
	Marks   []TimeMark
	Rows    []TimeSeriesRow
	Note    string // what else to know about the figures; empty for nothing
	Selects bool   // dragging over it goes to a time range
	Data    string // the same as JSON, for the script
}

// TimeMark is something that happened, such as a change of limits.
type TimeMark struct {
	Path string
	At   Instant
	Text string
}

// TimeSeriesRow is one step of a TimeSeries.
type TimeSeriesRow struct {
	At      Instant
	Allowed string
	Blocked string
}

// Sparkline is a chart in the size of a word.
type Sparkline struct {
	Text    string // what it shows
	Box     string // the SVG's viewBox
	Path    string
	Blocked string
}

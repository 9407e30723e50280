package templates

// TimeSeries is a chart of allowed, denied and refused calls over time, and a table with the same
// figures.
type TimeSeries struct {
	ID      string
	Title   string
	Summary string // the chart in a sentence
	Box     string // the SVG's viewBox
	Top     string // upper end of the vertical axis
	Begin   Instant
	End     Instant
	Layers  []TimeLayer
	Marks   []TimeMark
	Rows    []TimeSeriesRow
	Data    string // the chart as JSON, for the script
}

// TimeLayer is a series of the chart: bars on those of the layers before, or a line.
type TimeLayer struct {
	Class string // CSS classes; see app.css
	Title string
	Path  string
	Line  bool
	Calls []int64
}

// TimeMark is an event, such as a change of limits.
type TimeMark struct {
	Path    string
	At      Instant
	Text    string
	Address string // of the event; may be empty
}

// TimeSeriesRow is one step of a TimeSeries.
type TimeSeriesRow struct {
	At    Instant
	Calls []string // of each layer
}

// Sparkline is a chart as high as a line of text.
type Sparkline struct {
	Text   string // the chart in words
	Box    string // the SVG's viewBox
	Path   string // of the allowed calls
	Denied string // path of the denied and refused calls
}

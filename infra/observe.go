package main

// ObserveProps choose what is recorded of the calls, in addition to the functions' logs
// and the alarms on AWS's own metrics. The bill that synthesis prints says what each
// costs.
type ObserveProps struct {
	// Tracing has X-Ray record a part of the calls. Flag tracing, default false.
	Tracing bool
	// Metrics has the check function write metrics of its own, on which some alarms
	// depend. Flag metrics, default true in stage prod, else false.
	Metrics bool
	// Dashboard is the CloudWatch dashboard, which draws these metrics. Flag
	// cloudWatchDashboard, default as Metrics.
	Dashboard bool
	// AccessLogs are those of the HTTP APIs. Flag accessLogs, default true in stage prod,
	// else false.
	AccessLogs bool
}

func (r *reader) observe(prod bool) ObserveProps {
	metrics := r.boolean("metrics", prod)
	return ObserveProps{
		Tracing:    r.boolean("tracing", false),
		Metrics:    metrics,
		Dashboard:  r.boolean("cloudWatchDashboard", metrics),
		AccessLogs: r.boolean("accessLogs", prod),
	}
}

func (o *ObserveProps) check(want wants) {
	want(o.Metrics || !o.Dashboard, "cloudWatchDashboard", o.Dashboard,
		"draws the check function's metrics: set metrics=true too")
}

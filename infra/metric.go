package main

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/settings"
	"tidegate/internal/telemetry"
)

// checkCounter returns a counter that the check function writes.
func (s *Stack) checkCounter(m telemetry.Metric) awscloudwatch.IMetric {
	return s.checkMetric(m.String(), "Sum")
}

// latency returns the cache's latency as the check function measures it.
func (s *Stack) latency(statistic string) awscloudwatch.IMetric {
	return s.checkMetric(telemetry.StoreLatency, statistic)
}

func (s *Stack) checkMetric(name, statistic string) awscloudwatch.IMetric {
	return metric(telemetry.Namespace, name, statistic, map[string]string{
		telemetry.DimensionService: telemetry.CheckService, telemetry.DimensionStage: s.props.Stage,
	})
}

// ofCache returns a metric of the serverless cache.
func (s *Stack) ofCache(name, statistic string) awscloudwatch.IMetric {
	return metric("AWS/ElastiCache", name, statistic, map[string]string{"clusterId": s.props.Name()})
}

func ofNode(node, name, statistic string) awscloudwatch.IMetric {
	return metric("AWS/ElastiCache", name, statistic,
		map[string]string{"CacheClusterId": node, "CacheNodeId": "0001"})
}

func ofFunction(f *function, name, statistic string) awscloudwatch.IMetric {
	return metric("AWS/Lambda", name, statistic, map[string]string{"FunctionName": *f.FunctionName()})
}

// metric returns a metric with a period of one minute.
func metric(namespace, name, statistic string, dimensions map[string]string) awscloudwatch.IMetric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace: &namespace, MetricName: &name, Statistic: &statistic,
		Period:        awscdk.Duration_Minutes(jsii.Number(1)),
		DimensionsMap: texts(dimensions),
	})
}

// failures returns the percentage of the check function's calls that failed. It leaves
// out REST API calls without a valid credential: API Gateway makes a 401 only from an
// error, so Lambda counts them as errors. The function's own count of them is up to ten
// seconds late.
func (s *Stack) failures() awscloudwatch.IMetric {
	using := map[string]awscloudwatch.IMetric{
		"failed":       ofFunction(s.check, "Errors", "Sum"),
		"unauthorized": s.checkCounter(telemetry.Unauthorized),
		"calls":        ofFunction(s.check, "Invocations", "Sum"),
	}
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: jsii.String("100 * (failed - FILL(unauthorized, 0)) / calls"), UsingMetrics: &using,
		Label:  jsii.String("failed calls in %"),
		Period: awscdk.Duration_Minutes(jsii.Number(1)),
	})
}

// worst returns the maximum of a metric over the nodes.
func worst(nodes []string, name string) awscloudwatch.IMetric {
	using := map[string]awscloudwatch.IMetric{}
	for i, node := range nodes {
		using[fmt.Sprintf("m%d", i)] = ofNode(node, name, "Maximum")
	}
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: jsii.String("MAX(METRICS())"), UsingMetrics: &using, Label: &name,
		Period: awscdk.Duration_Minutes(jsii.Number(1)),
	})
}

// newMetricsDashboard creates the operator's dashboard in CloudWatch.
func (s *Stack) newMetricsDashboard() {
	rows := []awscloudwatch.IWidget{
		graph("Checks a minute; calls without a valid credential",
			s.checkCounters(telemetry.Checks, telemetry.Allowed, telemetry.Denied),
			s.checkCounters(telemetry.Refused, telemetry.Unauthorized)),
		graph("Calls denied in shadow; calls near a limit",
			s.checkCounters(telemetry.ShadowDenied, telemetry.NearLimit), nil),
		graph("Degraded checks and errors of the cache",
			s.checkCounters(telemetry.Degraded, telemetry.StoreErrors), nil),
		graph("Cache latency in ms", []awscloudwatch.IMetric{s.latency("p50"), s.latency("p99")}, nil),
		graph("Check function: duration in ms",
			[]awscloudwatch.IMetric{ofFunction(s.check, "Duration", "p50"),
				ofFunction(s.check, "Duration", "p99")},
			s.checkCounters(telemetry.ColdStart)),
		graph("Functions: errors and throttles", []awscloudwatch.IMetric{
			ofFunction(s.check, "Errors", "Sum"), ofFunction(s.check, "Throttles", "Sum"),
			ofFunction(s.admin, "Errors", "Sum"),
		}, []awscloudwatch.IMetric{ofFunction(s.check, "ConcurrentExecutions", "Maximum")}),
	}
	rows = append(rows, s.cacheWidgets()...)
	dashboard := awscloudwatch.NewDashboard(s.Stack, jsii.String("Metrics"),
		&awscloudwatch.DashboardProps{DashboardName: jsii.String(s.props.Name())})
	for i := 0; i < len(rows); i += 2 {
		dashboard.AddWidgets(rows[i : i+2]...)
	}
}

func (s *Stack) checkCounters(counters ...telemetry.Metric) []awscloudwatch.IMetric {
	var metrics []awscloudwatch.IMetric
	for _, m := range counters {
		metrics = append(metrics, s.checkCounter(m))
	}
	return metrics
}

// cacheWidgets returns two graphs of the cache, for either kind of cache.
func (s *Stack) cacheWidgets() []awscloudwatch.IWidget {
	if s.props.Store.Kind == settings.Serverless {
		return []awscloudwatch.IWidget{
			graph("Cache: ECPUs a minute, throttled commands",
				[]awscloudwatch.IMetric{s.ofCache("ElastiCacheProcessingUnits", "Sum")},
				[]awscloudwatch.IMetric{s.ofCache("ThrottledCmds", "Sum")}),
			graph("Cache: bytes, evictions",
				[]awscloudwatch.IMetric{s.ofCache("BytesUsedForCache", "Maximum")},
				[]awscloudwatch.IMetric{s.ofCache("Evictions", "Sum")}),
		}
	}
	var processor, memory []awscloudwatch.IMetric
	for _, node := range s.nodeNames() {
		processor = append(processor, ofNode(node, "EngineCPUUtilization", "Maximum"))
		memory = append(memory, ofNode(node, "DatabaseMemoryUsagePercentage", "Maximum"))
	}
	return []awscloudwatch.IWidget{graph("Cache: processor in %", processor, nil),
		graph("Cache: memory in %", memory, nil)}
}

func graph(title string, left, right []awscloudwatch.IMetric) awscloudwatch.IWidget {
	return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
		Title: &title, Left: &left, Right: &right, Width: jsii.Number(12), Height: jsii.Number(6),
	})
}

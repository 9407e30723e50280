package main

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

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

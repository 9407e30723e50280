package tidegate

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/jsii-runtime-go"

	"tidegate/internal/telemetry"
)

// checkCounter returns a counter that the check function writes.
func (t *Tidegate) checkCounter(m telemetry.Metric) awscloudwatch.IMetric {
	return t.checkMetric(m.String(), "Sum")
}

func (t *Tidegate) checkMetric(name, statistic string) awscloudwatch.IMetric {
	return metric(telemetry.Namespace, name, statistic, map[string]string{
		telemetry.DimensionService: telemetry.CheckService, telemetry.DimensionStage: t.props.Stage,
	})
}

// ofCache returns a metric of the serverless cache.
func (t *Tidegate) ofCache(name, statistic string) awscloudwatch.IMetric {
	return metric("AWS/ElastiCache", name, statistic, map[string]string{"clusterId": t.props.Name()})
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
func (t *Tidegate) failures() awscloudwatch.IMetric {
	return expression("100 * (failed - FILL(unauthorized, 0)) / calls", "failed calls in %",
		map[string]awscloudwatch.IMetric{
			"failed":       ofFunction(t.check, "Errors", "Sum"),
			"unauthorized": t.checkCounter(telemetry.Unauthorized),
			"calls":        ofFunction(t.check, "Invocations", "Sum"),
		})
}

// share returns a metric as a percentage of a limit.
func share(of awscloudwatch.IMetric, limit string) awscloudwatch.IMetric {
	return expression("100*used/"+limit, "used in %", map[string]awscloudwatch.IMetric{"used": of})
}

// worst returns the maximum of a metric over the nodes.
func worst(nodes []string, name string) awscloudwatch.IMetric {
	using := map[string]awscloudwatch.IMetric{}
	for i, node := range nodes {
		using[fmt.Sprintf("m%d", i)] = metric("AWS/ElastiCache", name, "Maximum",
			map[string]string{"CacheClusterId": node, "CacheNodeId": "0001"})
	}
	return expression("MAX(METRICS())", name, using)
}

// expression returns a calculation with metrics, each minute.
func expression(text, label string, using map[string]awscloudwatch.IMetric) awscloudwatch.IMetric {
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: &text, Label: &label, UsingMetrics: &using,
		Period: awscdk.Duration_Minutes(jsii.Number(1)),
	})
}

package main

import (
	"fmt"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/jsii-runtime-go"
)

// alarm is a condition that somebody should hear of. docs/deploy.md says what to do about each.
type alarm struct {
	name string
	// what is wrong, for the one who is woken
	what string
	// metric is above threshold in all of the minutes.
	metric    awscloudwatch.IMetric
	threshold float64
	minutes   int
}

const (
	// mostMetrics is how many metrics an alarm's arithmetic may take.
	mostMetrics = 10
	// nearly is the part of a limit at which an alarm goes off.
	nearly = .8

	slowCheck = 150 // ms; the check gives up on the cache after as long
	slowAdmin = 2000
	slowStore = 20
)

func (s *Stack) newTopic() awssns.Topic {
	topic := awssns.NewTopic(s.Stack, jsii.String("Alarms"), &awssns.TopicProps{
		TopicName: jsii.String(s.props.name() + "-alarms"), MasterKey: s.key, EnforceSSL: jsii.Bool(true),
	})
	if s.props.AlarmEmail != "" {
		topic.AddSubscription(awssnssubscriptions.NewEmailSubscription(&s.props.AlarmEmail, nil))
	}
	return topic
}

// newAlarms reports every alarm, and its end, to the topic.
func (s *Stack) newAlarms() []alarm {
	alarms := slices.Concat(s.checkAlarms(), s.adminAlarms(), s.cacheAlarms())
	action := awscloudwatchactions.NewSnsAction(s.topic)
	for _, a := range alarms {
		made := awscloudwatch.NewAlarm(s.Stack, jsii.String("Alarm"+a.name), &awscloudwatch.AlarmProps{
			AlarmName:          jsii.String(s.props.name() + "-" + a.name),
			AlarmDescription:   jsii.String(a.what),
			Metric:             a.metric,
			Threshold:          jsii.Number(a.threshold),
			ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD,
			EvaluationPeriods:  jsii.Number(a.minutes),
			TreatMissingData:   awscloudwatch.TreatMissingData_NOT_BREACHING,
		})
		made.AddAlarmAction(action)
		made.AddOkAction(action)
	}
	return alarms
}

func (s *Stack) checkAlarms() []alarm {
	alarms := []alarm{
		{"CheckErrors", "The check function fails: clients get 500.", ofFunction(s.check, "Errors", "Sum"), 0, 1},
		{"CheckThrottles", "The check function is throttled: clients get 500. Raise checkConcurrency.", ofFunction(s.check, "Throttles", "Sum"), 0, 1},
		{"CheckSlow", "Checks take long.", ofFunction(s.check, "Duration", "p99"), slowCheck, 5},
		{"Degraded", "Limits cannot be checked, since the cache does not answer.", s.ours("Degraded", "Sum"), 0, 2},
		{"StoreErrors", "Commands to the cache fail.", s.ours("StoreErrors", "Sum"), 0, 5},
		{"StoreSlow", "The cache answers slowly.", s.ours("StoreLatency", "p99"), slowStore, 5},
	}
	if reserved := s.check.props.Concurrency; reserved != Unreserved {
		alarms = append(alarms, alarm{
			"CheckConcurrency", "The check function soon uses all of its reserved concurrency. Raise checkConcurrency.",
			ofFunction(s.check, "ConcurrentExecutions", "Maximum"), nearly * float64(reserved), 3,
		})
	}
	return alarms
}

func (s *Stack) adminAlarms() []alarm {
	failures := metric("AWS/ApiGateway", "5xx", "Sum", map[string]string{"ApiId": *s.panel.api.ApiId()})
	return []alarm{
		{"AdminErrors", "The admin function fails.", ofFunction(s.admin, "Errors", "Sum"), 0, 1},
		{"AdminThrottles", "The admin function is throttled. Raise adminConcurrency.", ofFunction(s.admin, "Throttles", "Sum"), 0, 5},
		{"AdminSlow", "The dashboard is slow.", ofFunction(s.admin, "Duration", "p99"), slowAdmin, 5},
		{"DashboardFailures", "The dashboard answers 5xx.", failures, 0, 5},
	}
}

func (s *Stack) cacheAlarms() []alarm {
	if s.props.Store.Kind == Nodes {
		return s.nodeAlarms()
	}
	p := s.props.Store
	const gigabyte = 1 << 30
	return []alarm{
		{
			"CacheECPUs", "The cache soon reaches its limit of ECPUs a second, beyond which it throttles. Raise maxECPUs.",
			s.ofCache("ElastiCacheProcessingUnits", "Sum"), nearly * 60 * float64(p.MaxECPUs), 3,
		},
		{
			"CacheMemory", "The cache soon reaches its limit of storage, beyond which it evicts counts. Raise maxStorageGB.",
			s.ofCache("BytesUsedForCache", "Maximum"), nearly * gigabyte * float64(p.MaxStorageGB), 5,
		},
		{"CacheThrottled", "The cache throttles commands. Raise maxECPUs.", s.ofCache("ThrottledCmds", "Sum"), 0, 1},
		{"CacheEvictions", "The cache evicts counts: limits admit too much. Raise maxStorageGB.", s.ofCache("Evictions", "Sum"), 0, 1},
	}
}

// nodeAlarms watch the worst of up to ten nodes each.
func (s *Stack) nodeAlarms() []alarm {
	var alarms []alarm
	number := 0
	for nodes := range slices.Chunk(s.nodeNames(), mostMetrics) {
		number++
		add := func(name, what, metric string, threshold float64, minutes int) {
			if number > 1 {
				name = fmt.Sprintf("%s%d", name, number)
			}
			alarms = append(alarms, alarm{name, what, worst(nodes, metric), threshold, minutes})
		}
		add("CacheProcessor", "A node of the cache is busy. Add shards or choose a larger nodeType.", "EngineCPUUtilization", 100*nearly, 5)
		add("CacheMemory", "A node of the cache is nearly full, and will evict counts. Add shards or choose a larger nodeType.",
			"DatabaseMemoryUsagePercentage", 100*nearly, 5)
		add("CacheEvictions", "A node of the cache evicts counts: limits admit too much. Add shards or choose a larger nodeType.", "Evictions", 0, 1)
		add("CacheLag", "A replica is behind: a failover now would lose counts.", "ReplicationLag", 1, 5)
	}
	return alarms
}

// worst is the highest of a metric over the nodes.
func worst(nodes []string, name string) awscloudwatch.IMetric {
	using := map[string]awscloudwatch.IMetric{}
	for i, node := range nodes {
		using[fmt.Sprintf("m%d", i)] = ofNode(node, name, "Maximum")
	}
	return awscloudwatch.NewMathExpression(&awscloudwatch.MathExpressionProps{
		Expression: jsii.String("MAX(METRICS())"), UsingMetrics: &using, Label: &name, Period: awscdk.Duration_Minutes(jsii.Number(1)),
	})
}

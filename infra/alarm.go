package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/settings"
	"tidegate/internal/telemetry"
)

// alarm is a CloudWatch alarm of the stack. docs/operations.md describes each.
type alarm struct {
	name string
	// problem is what is wrong. remedy is what the operator does first.
	problem, remedy string
	// The alarm fires when metric is above threshold in each of the last minutes.
	metric    awscloudwatch.IMetric
	threshold float64
	minutes   int
}

const (
	// maxMetrics is CloudWatch's maximum number of metrics in an alarm's expression.
	maxMetrics = 10
	// nearLimit is the fraction of a limit above which an alarm fires.
	nearLimit = .8
	// failureThreshold is the percentage of failed calls above which an alarm fires.
	failureThreshold = 5
	// slowAdmin is the p99 duration, in milliseconds, above which an alarm fires.
	slowAdmin = 2000
)

func (s *Stack) newTopic() awssns.Topic {
	// This policy replaces SNS's default one, which would let alarms of the whole account
	// publish.
	topic := awssns.NewTopic(s.Stack, jsii.String("Alarms"), &awssns.TopicProps{
		TopicName: jsii.String(s.props.Name() + "-alarms"), MasterKey: s.key, EnforceSSL: jsii.Bool(true),
	})
	topic.AddToResourcePolicy(s.publishByAlarms(topic))
	if s.props.AlarmEmail != "" {
		topic.AddSubscription(awssnssubscriptions.NewEmailSubscription(&s.props.AlarmEmail, nil))
	}
	return topic
}

// publishByAlarms lets only this stack's alarms publish to their topic.
func (s *Stack) publishByAlarms(topic awssns.Topic) awsiam.PolicyStatement {
	alarms := s.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("cloudwatch"), Resource: jsii.String("alarm"),
		ResourceName: jsii.String(s.props.Name() + "-*"),
		ArnFormat:    awscdk.ArnFormat_COLON_RESOURCE_NAME,
	})
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("Alarms"),
		Principals: &[]awsiam.IPrincipal{
			awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil)},
		Actions:   jsii.Strings("sns:Publish"),
		Resources: &[]*string{topic.TopicArn()},
		Conditions: &map[string]any{
			"ArnLike":      map[string]any{"aws:SourceArn": alarms},
			"StringEquals": map[string]any{"aws:SourceAccount": s.Account()},
		},
	})
}

// listAlarms returns the alarms for the props.
func (s *Stack) listAlarms() []alarm {
	return slices.Concat(s.checkAlarms(), s.metricsAlarms(), s.adminAlarms(), s.cacheAlarms(),
		s.forwardAlarms())
}

// newAlarms creates the alarms. Each notifies the topic when it fires and when it ends.
func (s *Stack) newAlarms() {
	action := awscloudwatchactions.NewSnsAction(s.topic)
	for _, a := range s.listAlarms() {
		made := awscloudwatch.NewAlarm(s.Stack, jsii.String("Alarm"+a.name), &awscloudwatch.AlarmProps{
			AlarmName:          jsii.String(s.props.Name() + "-" + a.name),
			AlarmDescription:   jsii.String(a.problem + " First: " + a.remedy),
			Metric:             a.metric,
			Threshold:          jsii.Number(a.threshold),
			ComparisonOperator: awscloudwatch.ComparisonOperator_GREATER_THAN_THRESHOLD,
			EvaluationPeriods:  jsii.Number(a.minutes),
			TreatMissingData:   awscloudwatch.TreatMissingData_NOT_BREACHING,
		})
		made.AddAlarmAction(action)
		made.AddOkAction(action)
	}
}

// checkAlarms are alarms on Lambda's metrics of the check function.
func (s *Stack) checkAlarms() []alarm {
	alarms := []alarm{
		{
			"CheckThrottles", "Lambda throttles the check function: calls beyond its concurrency get 500.",
			"raise checkConcurrency.",
			ofFunction(s.check, "Throttles", "Sum"), 0, 1,
		},
		{
			"CheckSlow",
			"More than 1 % of the checks take longer than the check function waits for the cache.",
			"look at the cache's processor or ECPUs, then read the log group " +
				*s.logGroupName("check") + ".",
			ofFunction(s.check, "Duration", "p99"),
			milliseconds(s.props.Decision.Timeout() * 3 / 2),
			5,
		},
	}
	if reserved := s.check.props.Concurrency; reserved != settings.Unreserved {
		alarms = append(alarms, alarm{
			"CheckConcurrency", "The check function uses over 80 % of its reserved concurrency. Beyond it " +
				"clients get 500.", "raise checkConcurrency.",
			ofFunction(s.check, "ConcurrentExecutions", "Maximum"), nearLimit * float64(reserved), 3,
		})
	}
	return alarms
}

// metricsAlarms are alarms on the check function's own metrics, if it writes any. They
// include failures, which only the function can distinguish from calls without a good
// credential.
func (s *Stack) metricsAlarms() []alarm {
	if !s.props.Observe.Metrics {
		return nil
	}
	log := "read the log group " + *s.logGroupName("check")
	return []alarm{
		{
			"CheckErrors", "The check function fails: clients get 500. Calls without a valid credential, " +
				"which a REST API gets as an error, do not count.",
			log + "; after a deployment, roll back.", s.failures(), failureThreshold, 3,
		},
		{
			"Degraded", "The cache does not answer, so limits cannot be checked. Known callers are " +
				"treated as their plan says, all others are denied.",
			"read ElastiCache's events: a failover ends by itself. Otherwise " + log + ".",
			s.checkCounter(telemetry.Degraded), 0, 2,
		},
		{
			"StoreErrors", "Calls to the cache have failed for 5 minutes.",
			log + ": the field cause shows whether a log-in was refused or timed out.",
			s.checkCounter(telemetry.StoreErrors), 0, 5,
		},
		{
			"StoreSlow", "The cache answers slowly.",
			"look at the cache's processor or ECPUs, then at the network.",
			s.latency("p99"), milliseconds(s.props.Decision.Timeout() / 5), 5,
		},
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (s *Stack) adminAlarms() []alarm {
	failures := metric("AWS/ApiGateway", "5xx", "Sum", map[string]string{"ApiId": *s.panel.api.ApiId()})
	log := "read the log group " + *s.logGroupName("admin")
	return []alarm{
		{
			"AdminErrors", "The admin function fails, or Valkey does not take the log of changes. Checks " +
				"go on with what they have.",
			"open the dashboard: every page says what is wrong with the log. " + log +
				"; after a deployment, roll back.",
			ofFunction(s.admin, "Errors", "Sum"), 0, 1,
		},
		{
			"AdminThrottles", "Lambda throttles the admin function. Checks are not affected.",
			"raise adminConcurrency.",
			ofFunction(s.admin, "Throttles", "Sum"), 0, 5,
		},
		{"AdminSlow", "The dashboard is slow. Checks are not affected.", log + ".",
			ofFunction(s.admin, "Duration", "p99"), slowAdmin, 5},
		{"DashboardFailures", "The dashboard answers 5xx. Checks are not affected, unless Degraded fires " +
			"too.", log + ".", failures, 0, 5},
	}
}

func (s *Stack) cacheAlarms() []alarm {
	if s.props.Store.Kind == settings.Nodes {
		return s.nodeAlarms()
	}
	p := s.props.Store
	const gigabyte = 1 << 30
	return []alarm{
		{
			"CacheECPUs", "The cache uses over 80 % of its ECPUs a second. Beyond the limit it throttles.",
			"raise maxECPUs.",
			s.ofCache("ElastiCacheProcessingUnits", "Sum"), nearLimit * 60 * float64(p.MaxECPUs), 3,
		},
		{
			"CacheMemory", "The cache uses over 80 % of its storage. Beyond the limit it evicts counts.",
			"raise maxStorageGB.",
			s.ofCache("BytesUsedForCache", "Maximum"), nearLimit * gigabyte * float64(p.MaxStorageGB), 5,
		},
		{
			"CacheThrottled", "The cache throttles commands: some checks are decided without it.",
			"raise maxECPUs.",
			s.ofCache("ThrottledCmds", "Sum"), 0, 1,
		},
		{
			"CacheEvictions", "The cache is full and evicts counts: limits admit too many calls. " +
				"Configuration is never evicted.", "raise maxStorageGB.",
			s.ofCache("Evictions", "Sum"), 0, 1,
		},
	}
}

// nodeAlarms returns alarms on the nodes. Each watches the maximum of up to maxMetrics
// nodes; larger clusters get several alarms with a number in the name.
func (s *Stack) nodeAlarms() []alarm {
	const grow = "add shards, or choose a larger nodeType."
	var alarms []alarm
	number := 0
	for nodes := range slices.Chunk(s.nodeNames(), maxMetrics) {
		number++
		add := func(name, problem, remedy, metric string, threshold float64, minutes int) {
			if number > 1 {
				name = fmt.Sprintf("%s%d", name, number)
			}
			alarms = append(alarms, alarm{name, problem, remedy, worst(nodes, metric), threshold, minutes})
		}
		add("CacheProcessor", "A node of the cache uses over 80 % of its engine processor.", grow,
			"EngineCPUUtilization", 100*nearLimit, 5)
		add("CacheMemory", "A node of the cache uses over 80 % of its memory. A full one evicts counts.",
			grow, "DatabaseMemoryUsagePercentage", 100*nearLimit, 5)
		add("CacheEvictions", "A node of the cache is full and evicts counts: limits admit too many calls. "+
			"Configuration is never evicted.", grow, "Evictions", 0, 1)
		add("CacheLag", "A replica is behind: a failover now would lose counts.",
			"look at the load of its shard; "+grow, "ReplicationLag", 1, 5)
	}
	return alarms
}

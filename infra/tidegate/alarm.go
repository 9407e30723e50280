package tidegate

import (
	"fmt"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
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
	// percent is the share of a limit above which an alarm fires.
	percent = 80
	// failureThreshold is the percentage of failed calls above which an alarm fires.
	failureThreshold = 5
	// slowAdmin is the p99 duration, in milliseconds, above which an alarm fires.
	slowAdmin = 2000
)

// newTopic sets the topic of the alarms.
func (t *Tidegate) newTopic() {
	t.AlarmTopic = t.props.AlarmTopic
	own := t.choices.topic
	if own.maybe() {
		// This policy replaces SNS's default one, which would let alarms of the whole account
		// publish.
		topic := awssns.NewTopic(t.part("Alarms", own), jsii.String("Topic"), &awssns.TopicProps{
			MasterKey: t.key, EnforceSSL: jsii.Bool(true),
		})
		topic.AddToResourcePolicy(t.publishByAlarms(topic))
		t.AlarmTopic = own.text(*topic.TopicArn(), t.AlarmTopic)
	}
	if mail := t.choices.mail; mail.maybe() {
		awssns.NewCfnSubscription(t.part("Mail", mail), jsii.String("Subscription"),
			&awssns.CfnSubscriptionProps{Protocol: jsii.String("email"), Endpoint: &t.props.AlarmEmail,
				TopicArn: &t.AlarmTopic})
	}
}

// publishByAlarms lets only the stage's alarms publish to their topic.
func (t *Tidegate) publishByAlarms(topic awssns.Topic) awsiam.PolicyStatement {
	alarms := t.arn("cloudwatch", "alarm", t.props.Name()+"-*")
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("Alarms"),
		Principals: &[]awsiam.IPrincipal{
			awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil)},
		Actions:   jsii.Strings("sns:Publish"),
		Resources: &[]*string{topic.TopicArn()},
		Conditions: &map[string]any{
			"ArnLike":      map[string]any{"aws:SourceArn": alarms},
			"StringEquals": map[string]any{"aws:SourceAccount": t.stack().Account()},
		},
	})
}

// newAlarms creates the alarms. Each notifies the topic when it fires and when it ends.
func (t *Tidegate) newAlarms() {
	t.newTopic()
	topic := awssns.Topic_FromTopicArn(t.Construct, jsii.String("AlarmTopic"), &t.AlarmTopic)
	action := awscloudwatchactions.NewSnsAction(topic)
	always := choice{made: true}
	for _, set := range []struct {
		id     string
		made   choice
		alarms []alarm
	}{
		{"Functions", always, slices.Concat(t.checkAlarms(), t.metricsAlarms(), t.adminAlarms())},
		{"Concurrency", t.choices.checkReserved, t.concurrencyAlarms()},
		{"Cache", t.choices.cache, t.cacheAlarms()},
		{"Events", t.choices.events, t.forwardAlarms()},
	} {
		if !set.made.maybe() {
			continue
		}
		scope := t.part(set.id+"Alarms", set.made)
		for _, a := range set.alarms {
			made := awscloudwatch.NewAlarm(scope, jsii.String("Alarm"+a.name), &awscloudwatch.AlarmProps{
				AlarmName:          jsii.String(t.props.Name() + "-" + a.name),
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
}

// checkAlarms are alarms on Lambda's metrics of the check function.
func (t *Tidegate) checkAlarms() []alarm {
	return []alarm{
		{
			"CheckThrottles", "Lambda throttles the check function: calls beyond its concurrency get 500.",
			"raise checkConcurrency.",
			ofFunction(t.check, "Throttles", "Sum"), 0, 1,
		},
		{
			"CheckSlow",
			"More than 1 % of the checks take longer than the check function waits for the cache.",
			"look at the cache's processor or ECPUs, then read the log group " +
				*t.logGroupName("check") + ".",
			share(ofFunction(t.check, "Duration", "p99"), "(1.5*"+t.storeTimeout()+")"), 100, 5,
		},
	}
}

// concurrencyAlarms are alarms on a reserved concurrency.
func (t *Tidegate) concurrencyAlarms() []alarm {
	return []alarm{{
		"CheckConcurrency", "The check function uses over 80 % of its reserved concurrency. Beyond it " +
			"clients get 500.", "raise checkConcurrency.",
		share(ofFunction(t.check, "ConcurrentExecutions", "Maximum"), t.numeral("checkConcurrency",
			t.props.CheckConcurrency)), percent, 3,
	}}
}

// metricsAlarms are alarms on the check function's own metrics, if it writes any. They
// include failures, which only the function can distinguish from calls without a good
// credential.
func (t *Tidegate) metricsAlarms() []alarm {
	if !t.props.Metrics {
		return nil
	}
	log := "read the log group " + *t.logGroupName("check")
	return []alarm{
		{
			"CheckErrors", "The check function fails: clients get 500. Calls without a valid credential, " +
				"which a REST API gets as an error, do not count.",
			log + "; after a deployment, roll back.", t.failures(), failureThreshold, 3,
		},
		{
			"Degraded", "The cache does not answer, so limits cannot be checked. Known callers are " +
				"treated as their plan says, all others are denied.",
			"read ElastiCache's events: a failover ends by itself. Otherwise " + log + ".",
			t.checkCounter(telemetry.Degraded), 0, 2,
		},
		{
			"StoreErrors", "Calls to the cache have failed for 5 minutes.",
			log + ": the field cause shows whether a log-in was refused or timed out.",
			t.checkCounter(telemetry.StoreErrors), 0, 5,
		},
		{
			"StoreSlow", "The cache answers slowly.",
			"look at the cache's processor or ECPUs, then at the network.",
			share(t.checkMetric(telemetry.StoreLatency, "p99"), "(0.2*"+t.storeTimeout()+")"), 100, 5,
		},
	}
}

// storeTimeout returns VALKEY_TIMEOUT in milliseconds, for an expression.
func (t *Tidegate) storeTimeout() string {
	milliseconds := fmt.Sprint(t.props.Timeout().Milliseconds())
	if t.props.template == nil {
		return milliseconds
	}
	return t.props.template.timeout.text(*awscdk.Fn_Select(jsii.Number(0), awscdk.Fn_Split(jsii.String("ms"),
		jsii.String(t.props.template.variable("VALKEY_TIMEOUT")), nil)), milliseconds)
}

func (t *Tidegate) adminAlarms() []alarm {
	failures := metric("AWS/ApiGateway", "5xx", "Sum", map[string]string{"ApiId": *t.api.api.Ref()})
	log := "read the log group " + *t.logGroupName("admin")
	return []alarm{
		{
			"AdminErrors", "The admin function fails, or Valkey does not take the log of changes. Checks " +
				"go on with what they have.",
			"open the dashboard: every page says what is wrong with the log. " + log +
				"; after a deployment, roll back.",
			ofFunction(t.admin, "Errors", "Sum"), 0, 1,
		},
		{
			"AdminThrottles", "Lambda throttles the admin function. Checks are not affected.",
			"raise adminConcurrency.",
			ofFunction(t.admin, "Throttles", "Sum"), 0, 5,
		},
		{"AdminSlow", "The dashboard is slow. Checks are not affected.", log + ".",
			ofFunction(t.admin, "Duration", "p99"), slowAdmin, 5},
		{"DashboardFailures", "The dashboard answers 5xx. Checks are not affected, unless Degraded fires " +
			"too.", log + ".", failures, 0, 5},
	}
}

func (t *Tidegate) cacheAlarms() []alarm {
	if t.props.Kind == settings.Nodes {
		return t.nodeAlarms()
	}
	p := t.props.Store
	return []alarm{
		{
			"CacheECPUs", "The cache uses over 80 % of its ECPUs a second. Beyond the limit it throttles.",
			"raise maxECPUs.",
			share(t.ofCache("ElastiCacheProcessingUnits", "Sum"), "60/"+t.numeral("maxECPUs", p.MaxECPUs)),
			percent, 3,
		},
		{
			"CacheMemory", "The cache uses over 80 % of its storage. Beyond the limit it evicts counts.",
			"raise maxStorageGB.",
			share(t.ofCache("BytesUsedForCache", "Maximum"),
				"1073741824/"+t.numeral("maxStorageGB", p.MaxStorageGB)), percent, 5,
		},
		{
			"CacheThrottled", "The cache throttles commands: some checks are decided without it.",
			"raise maxECPUs.",
			t.ofCache("ThrottledCmds", "Sum"), 0, 1,
		},
		{
			"CacheEvictions", "The cache is full and evicts counts: limits admit too many calls. " +
				"Configuration is never evicted.", "raise maxStorageGB.",
			t.ofCache("Evictions", "Sum"), 0, 1,
		},
	}
}

// nodeAlarms returns alarms on the nodes. Each watches the maximum of up to maxMetrics
// nodes; larger clusters get several alarms with a number in the name.
func (t *Tidegate) nodeAlarms() []alarm {
	const grow = "add shards, or choose a larger nodeType."
	var alarms []alarm
	number := 0
	for nodes := range slices.Chunk(t.nodeNames(), maxMetrics) {
		number++
		add := func(name, problem, remedy, metric string, threshold float64, minutes int) {
			if number > 1 {
				name = fmt.Sprintf("%s%d", name, number)
			}
			alarms = append(alarms, alarm{name, problem, remedy, worst(nodes, metric), threshold, minutes})
		}
		add("CacheProcessor", "A node of the cache uses over 80 % of its engine processor.", grow,
			"EngineCPUUtilization", percent, 5)
		add("CacheMemory", "A node of the cache uses over 80 % of its memory. A full one evicts counts.",
			grow, "DatabaseMemoryUsagePercentage", percent, 5)
		add("CacheEvictions", "A node of the cache is full and evicts counts: limits admit too many calls. "+
			"Configuration is never evicted.", grow, "Evictions", 0, 1)
		add("CacheLag", "A replica is behind: a failover now would lose counts.",
			"look at the load of its shard; "+grow, "ReplicationLag", 1, 5)
	}
	return alarms
}

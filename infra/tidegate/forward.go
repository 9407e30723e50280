package tidegate

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogsdestinations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/settings"
	"tidegate/internal/telemetry"
)

const (
	forwardMemory  = 128
	forwardTimeout = 30 // seconds: three attempts of a batch
	// failureDays is SQS's maximum retention of a message.
	failureDays = 14
)

// forward is the function that turns the functions' log lines of crossed limits into
// events. CloudWatch Logs cannot reach an event bus or a topic by itself:
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/SubscriptionFilters.html
type forward struct {
	failures awssqs.Queue // events that could not be delivered
}

func (t *Tidegate) newForward() {
	if !t.choices.events.maybe() {
		return
	}
	scope := t.part("Forwarding", t.choices.events)
	rights := t.newTarget(scope)
	t.Admin.AddEnvironment(jsii.String("CROSSINGS_TARGET"),
		jsii.String(t.choices.events.text(t.CrossingsTarget, "")), nil)
	failures := awssqs.NewQueue(scope, jsii.String("CrossingsFailed"), &awssqs.QueueProps{
		QueueName: jsii.String(t.props.Name() + "-crossings-failed"), EnforceSSL: jsii.Bool(true),
		Encryption:      awssqs.QueueEncryption_SQS_MANAGED,
		RetentionPeriod: awscdk.Duration_Days(jsii.Number(failureDays)),
	})
	t.forward = &forward{failures}
	// The log group is deleted with the function, since its name would be taken when the
	// events are sent again.
	log := t.logGroup(scope, "ForwardLog", "forward", awscdk.RemovalPolicy_DESTROY)
	made := awslambda.NewFunction(scope, jsii.String("Forward"), &awslambda.FunctionProps{
		FunctionName:          jsii.String(t.functionName("forward")),
		Description:           jsii.String("Tidegate: makes events of crossed limits"),
		Runtime:               awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:          awslambda.Architecture_ARM_64(),
		Handler:               jsii.String("bootstrap"),
		Code:                  t.props.Code("forward"),
		MemorySize:            jsii.Number(forwardMemory),
		Timeout:               awscdk.Duration_Seconds(jsii.Number(forwardTimeout)),
		Environment:           texts(map[string]string{"TARGET": t.CrossingsTarget, "STAGE": t.props.Stage}),
		EnvironmentEncryption: t.key,
		DeadLetterQueue:       failures,
		LogGroup:              log,
		LoggingFormat:         awslambda.LoggingFormat_JSON,
		SystemLogLevelV2:      awslambda.SystemLogLevel_WARN,
		Role:                  workRole(scope, "Forward", "forward", log, rights...),
	})
	destination := awslogsdestinations.NewLambdaDestination(made, nil)
	for id, from := range map[string]*function{"CheckCrossings": t.check, "AdminCrossings": t.admin} {
		awslogs.NewSubscriptionFilter(scope, &id, &awslogs.SubscriptionFilterProps{
			LogGroup: from.log, Destination: destination,
			FilterPattern: awslogs.FilterPattern_StringValue(jsii.String("$.event"), jsii.String("="),
				jsii.String(telemetry.LimitCrossed)),
		})
	}
}

// newTarget sets the target of the events, creates the topic unless the target is the
// event bus, and returns the rights to publish to it.
func (t *Tidegate) newTarget(scope constructs.Construct) []awsiam.PolicyStatement {
	if t.props.Crossings != settings.SNS {
		t.CrossingsTarget = *t.stack().FormatArn(&awscdk.ArnComponents{Service: jsii.String("events"),
			Resource: jsii.String("event-bus"), ResourceName: jsii.String("default")})
		return []awsiam.PolicyStatement{statement("Events", jsii.Strings("events:PutEvents"),
			&[]*string{&t.CrossingsTarget})}
	}
	topic := awssns.NewTopic(scope, jsii.String("Crossings"), &awssns.TopicProps{
		TopicName: jsii.String(t.props.Name() + "-crossings"), MasterKey: t.key, EnforceSSL: jsii.Bool(true),
	})
	t.CrossingsTarget = *topic.TopicArn()
	return []awsiam.PolicyStatement{
		statement("Events", jsii.Strings("sns:Publish"), &[]*string{topic.TopicArn()}),
		statement("TopicKey", jsii.Strings("kms:Decrypt", "kms:GenerateDataKey"), &[]*string{&t.keyARN}),
	}
}

// forwardAlarms are alarms on events that could not be delivered.
func (t *Tidegate) forwardAlarms() []alarm {
	if t.forward == nil {
		return nil
	}
	return []alarm{{
		"CrossingsFailed", "Events of crossed limits could not be delivered, and wait in a queue.",
		"read the log group " + *t.logGroupName("forward") + ", then send the queue's messages again.",
		metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum",
			map[string]string{"QueueName": *t.forward.failures.QueueName()}), 0, 1,
	}}
}

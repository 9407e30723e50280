package main

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogsdestinations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/jsii-runtime-go"

	"tidegate/internal/telemetry"
)

const (
	// eventBridge is the value of the flag crossings that names the event bus.
	eventBridge    = "eventbridge"
	forwardMemory  = 128
	forwardTimeout = 30 // seconds: three attempts of a batch
	// failureDays is SQS's maximum retention of a message.
	failureDays = 14
)

// forward is the function that turns the functions' log lines of crossed limits into
// events. CloudWatch Logs cannot reach an event bus or a topic by itself:
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/SubscriptionFilters.html
type forward struct {
	target   *string      // ARN
	topic    awssns.Topic // nil for the event bus
	failures awssqs.Queue // events that could not be delivered
}

func (s *Stack) newForward() *forward {
	f := &forward{}
	rights := f.newTarget(s)
	s.admin.AddEnvironment(jsii.String("CROSSINGS_TARGET"), f.target, nil)
	f.failures = awssqs.NewQueue(s.Stack, jsii.String("CrossingsFailed"), &awssqs.QueueProps{
		QueueName: jsii.String(s.props.Name() + "-crossings-failed"), EnforceSSL: jsii.Bool(true),
		Encryption:      awssqs.QueueEncryption_SQS_MANAGED,
		RetentionPeriod: awscdk.Duration_Days(jsii.Number(failureDays)),
	})
	log := s.optionalLogGroup("ForwardLog", "forward")
	rights = append(rights, statement("Log", jsii.Strings("logs:CreateLogStream", "logs:PutLogEvents"),
		&[]*string{log.LogGroupArn()}))
	made := awslambda.NewFunction(s.Stack, jsii.String("Forward"), &awslambda.FunctionProps{
		FunctionName:          jsii.String(s.functionName("forward")),
		Description:           jsii.String("Tidegate: makes events of crossed limits"),
		Runtime:               awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:          awslambda.Architecture_ARM_64(),
		Handler:               jsii.String("bootstrap"),
		Code:                  s.code("forward"),
		MemorySize:            jsii.Number(forwardMemory),
		Timeout:               awscdk.Duration_Seconds(jsii.Number(forwardTimeout)),
		Environment:           texts(map[string]string{"TARGET": *f.target, "STAGE": s.props.Stage}),
		EnvironmentEncryption: s.key,
		DeadLetterQueue:       f.failures,
		LogGroup:              log,
		LoggingFormat:         awslambda.LoggingFormat_JSON,
		SystemLogLevelV2:      awslambda.SystemLogLevel_WARN,
		Role: awsiam.NewRole(s.Stack, jsii.String("ForwardRole"), &awsiam.RoleProps{
			AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
			Description: jsii.String("What Tidegate's forward function may do"),
			InlinePolicies: &map[string]awsiam.PolicyDocument{
				"Work": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &rights}),
			},
		}),
	})
	destination := awslogsdestinations.NewLambdaDestination(made, nil)
	for _, from := range []*function{s.check, s.admin} {
		id := strings.ToUpper(from.name[:1]) + from.name[1:] + "Crossings"
		awslogs.NewSubscriptionFilter(s.Stack, &id, &awslogs.SubscriptionFilterProps{
			LogGroup: from.log, Destination: destination,
			FilterPattern: awslogs.FilterPattern_StringValue(jsii.String("$.event"), jsii.String("="),
				jsii.String(telemetry.LimitCrossed)),
		})
	}
	return f
}

// newTarget sets the target of the events, creates the topic unless the target is the
// event bus, and returns the rights to publish to it.
func (f *forward) newTarget(s *Stack) []awsiam.PolicyStatement {
	if s.props.Crossings == eventBridge {
		f.target = s.FormatArn(&awscdk.ArnComponents{Service: jsii.String("events"),
			Resource: jsii.String("event-bus"), ResourceName: jsii.String("default")})
		return []awsiam.PolicyStatement{statement("Events", jsii.Strings("events:PutEvents"),
			&[]*string{f.target})}
	}
	f.topic = awssns.NewTopic(s.Stack, jsii.String("Crossings"), &awssns.TopicProps{
		TopicName: jsii.String(s.props.Name() + "-crossings"), MasterKey: s.key, EnforceSSL: jsii.Bool(true),
	})
	f.target = f.topic.TopicArn()
	return []awsiam.PolicyStatement{
		statement("Events", jsii.Strings("sns:Publish"), &[]*string{f.target}),
		statement("TopicKey", jsii.Strings("kms:Decrypt", "kms:GenerateDataKey"), &[]*string{s.key.KeyArn()}),
	}
}

// forwardAlarms are alarms on events that could not be delivered.
func (s *Stack) forwardAlarms() []alarm {
	if s.forward == nil {
		return nil
	}
	return []alarm{{
		"CrossingsFailed", "Events of crossed limits could not be delivered, and wait in a queue.",
		"read the log group " + *s.logGroupName("forward") + ", then send the queue's messages again.",
		metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum",
			map[string]string{"QueueName": s.props.Name() + "-crossings-failed"}), 0, 1,
	}}
}

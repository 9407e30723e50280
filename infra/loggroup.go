package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"
)

// retention maps a number of days to RetentionDays.
var retention = map[int]awslogs.RetentionDays{
	1: awslogs.RetentionDays_ONE_DAY, 3: awslogs.RetentionDays_THREE_DAYS, 5: awslogs.RetentionDays_FIVE_DAYS,
	7:  awslogs.RetentionDays_ONE_WEEK,
	14: awslogs.RetentionDays_TWO_WEEKS, 30: awslogs.RetentionDays_ONE_MONTH,
	60: awslogs.RetentionDays_TWO_MONTHS,
	90: awslogs.RetentionDays_THREE_MONTHS, 120: awslogs.RetentionDays_FOUR_MONTHS,
	150: awslogs.RetentionDays_FIVE_MONTHS,
	180: awslogs.RetentionDays_SIX_MONTHS, 365: awslogs.RetentionDays_ONE_YEAR,
	400: awslogs.RetentionDays_THIRTEEN_MONTHS,
	545: awslogs.RetentionDays_EIGHTEEN_MONTHS, 731: awslogs.RetentionDays_TWO_YEARS,
}

func (s *Stack) logGroupName(name string) *string {
	return jsii.String("/tidegate/" + s.props.Stage + "/" + name)
}

// logGroup is encrypted. It is deleted with the stack unless data is kept.
func (s *Stack) logGroup(id, name string) awslogs.LogGroup {
	group := awslogs.NewLogGroup(s.Stack, &id, &awslogs.LogGroupProps{
		LogGroupName:  s.logGroupName(name),
		EncryptionKey: s.key,
		Retention:     retention[s.props.LogDays],
		RemovalPolicy: s.removal(),
	})
	return group
}

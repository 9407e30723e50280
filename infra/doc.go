// Package infra will provision Tidegate with the AWS CDK: network, ElastiCache for Valkey, both functions, example APIs and alarms.
// It holds no stack yet.
package infra

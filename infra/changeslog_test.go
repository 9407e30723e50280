package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The bucket of the log of changes is versioned, encrypted and private, and stays when the stack is
// deleted. Only the admin function reaches it, through an endpoint for this bucket alone,
// and cannot delete from it.
func TestChangesLog(t *testing.T) {
	made := of(t, prod)
	bucket := made.only(t, "AWS::S3::Bucket", "Changes")
	equal(t, "versions", text(bucket.Properties.at("VersioningConfiguration", "Status")), "Enabled")
	rules := list(bucket.Properties.at("BucketEncryption", "ServerSideEncryptionConfiguration"))
	equal(t, "encryption", strings.Contains(fmt.Sprint(rules), "SSEAlgorithm:aws:kms"), true)
	lock := bucket.Properties.at("ObjectLockConfiguration", "Rule", "DefaultRetention")
	equal(t, "lock", lock, any(map[string]any{"Mode": "COMPLIANCE", "Days": 365.0}))
	equal(t, "owner", bucket.DeletionPolicy, "RetainExceptOnCreate")
	for _, name := range []string{
		"BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets",
	} {
		equal(t, name, bucket.Properties.at("PublicAccessBlockConfiguration", name), true)
	}
	var denials []string
	allowed := map[string][]string{} // resource types by action
	for id, statements := range made.statements() {
		for _, s := range statements {
			for _, action := range list(s["Action"]) {
				if s["Effect"] == "Deny" && made.Resources[id].Type == "AWS::S3::BucketPolicy" {
					denials = append(denials, text(action))
				}
				if s["Effect"] == "Allow" && len(text(action)) > 3 && text(action)[:3] == "s3:" {
					allowed[text(action)] = append(allowed[text(action)], made.Resources[id].Type)
				}
			}
		}
	}
	slices.Sort(denials)
	equal(t, "denied: without TLS everything, without If-None-Match a put of a change, to delete one",
		denials, []string{"s3:*", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObject"})
	for _, action := range []string{"s3:GetObject", "s3:PutObject", "s3:ListBucket"} {
		slices.Sort(allowed[action])
		equal(t, action, allowed[action], []string{"AWS::EC2::VPCEndpoint", "AWS::IAM::Policy"})
	}
	equal(t, "other rights", len(allowed), 3)
	address := environment(t, made, "Admin")["CHANGES_LOG"]
	equal(t, "address", strings.HasPrefix(text(address), "s3://"), true)
	equal(t, "check knows it", environment(t, made, "Check")["CHANGES_LOG"], nil)
	equal(t, "in a dev stage", of(t, dev).only(t, "AWS::S3::Bucket", "Changes").DeletionPolicy,
		"RetainExceptOnCreate")
}

// A rule calls the admin function each minute, with the event that it knows.
func TestMinute(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		rule := made.only(t, "AWS::Events::Rule", "Minute").Properties
		equal(t, "schedule", rule["ScheduleExpression"], "rate(1 minute)")
		target := properties(list(rule["Targets"])[0].(map[string]any))
		equal(t, "event", target["Input"], `{"tidegate":"minute"}`)
		equal(t, "retries", target.at("RetryPolicy", "MaximumRetryAttempts"), 0.0)
		function := made.only(t, "AWS::Lambda::Function", "Admin").id
		if got := text(target["Arn"]); !strings.Contains(got, function) {
			t.Errorf("the rule calls %s, want %s", got, function)
		}
	})
}

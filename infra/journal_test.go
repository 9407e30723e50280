package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The journal's bucket is versioned, encrypted and private, and stays when the stack is
// deleted. Only the admin function reaches it, through an endpoint for this bucket alone,
// and cannot delete from it.
func TestJournal(t *testing.T) {
	made := of(t, prod)
	bucket := made.only(t, "AWS::S3::Bucket", "Journal")
	equal(t, "versions", text(bucket.Properties.at("VersioningConfiguration", "Status")), "Enabled")
	rules := list(bucket.Properties.at("BucketEncryption", "ServerSideEncryptionConfiguration"))
	equal(t, "encryption", strings.Contains(fmt.Sprint(rules), "SSEAlgorithm:aws:kms"), true)
	alarm := made.only(t, "AWS::CloudWatch::Alarm", "AlarmJournalUnsafe")
	equal(t, "alarm", alarm.Properties["AlarmActions"] != nil, true)
	lock := bucket.Properties.at("ObjectLockConfiguration", "Rule", "DefaultRetention")
	equal(t, "lock", lock, any(map[string]any{"Mode": "COMPLIANCE", "Days": 365.0}))
	equal(t, "retention", environment(t, made, "Admin")["AUDIT_RETENTION"], any("2160h0m0s"))
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
	equal(t, "denied: without TLS everything, without If-None-Match a put", denials,
		[]string{"s3:*", "s3:PutObject"})
	for _, action := range []string{"s3:GetObject", "s3:PutObject", "s3:ListBucket"} {
		slices.Sort(allowed[action])
		equal(t, action, allowed[action], []string{"AWS::EC2::VPCEndpoint", "AWS::IAM::Policy"})
	}
	equal(t, "other rights", len(allowed), 3)
	address := environment(t, made, "Admin")["JOURNAL"]
	equal(t, "address", strings.HasPrefix(text(address), "s3://"), true)
	equal(t, "check knows it", environment(t, made, "Check")["JOURNAL"], nil)
	equal(t, "without the flag", len(of(t, dev).all("AWS::S3::Bucket")), 0)
}

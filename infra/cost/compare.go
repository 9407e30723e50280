package cost

import "fmt"

// Where prices of alternatives are from.
const (
	WebACLSource  = waf
	FargateSource = "aws.amazon.com/fargate/pricing"
)

// WebACL returns the cost of a web ACL with so many rules.
func WebACL(rules int) []Line {
	return []Line{
		monthly("WAF web ACL", webACL, 1), monthly("WAF rules", webACLRule, rules),
		line("WAF requests", webACLRequests, 0, 1, "1 request a check"),
	}
}

// Fargate returns the monthly cost of so many vCPUs and GB of memory.
func Fargate(vcpus, gigabytes float64) []Line {
	return []Line{
		line("Fargate, vCPUs", fargateVCPU, vcpus*hoursPerMonth, 0,
			fmt.Sprintf("%s × %d hours", decimal(vcpus), hoursPerMonth)),
		line("Fargate, memory", fargateMemory, gigabytes*hoursPerMonth,
			0, fmt.Sprintf("%s × %d hours", decimal(gigabytes), hoursPerMonth)),
	}
}

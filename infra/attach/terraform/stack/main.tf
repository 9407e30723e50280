# Deploys Tidegate without the CDK: uploads the functions and the CloudFormation template of
# a release to a bucket, and makes a stack of them.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "release" {
  description = "Folder with check-arm64.zip, admin-arm64.zip, forward-arm64.zip and tidegate.template.json of a release"
  type        = string
}

variable "bucket" {
  description = "Bucket in the region of the stack, for the functions and the template"
  type        = string
}

variable "stage" {
  description = "Name of the deployment: at most 12 small letters, digits and single hyphens"
  type        = string
  default     = "prod"
}

variable "parameters" {
  description = "Other parameters of the template, such as VpcId or AlarmEmail"
  type        = map(string)
  default     = {}
}

data "aws_region" "current" {}

data "aws_partition" "current" {}

locals {
  functions = toset(["check", "admin", "forward"])
  template  = "${var.release}/tidegate.template.json"
  # CloudFormation sees new code by its new place alone.
  prefix = "tidegate/${sha1(join("", [for name in sort(local.functions) : filesha256("${var.release}/${name}-arm64.zip")]))}/"
}

# The code of before stays until the stack has the new one.
resource "aws_s3_object" "code" {
  for_each    = local.functions
  bucket      = var.bucket
  key         = "${local.prefix}${each.key}.zip"
  source      = "${var.release}/${each.key}-arm64.zip"
  source_hash = filesha256("${var.release}/${each.key}-arm64.zip")

  lifecycle {
    create_before_destroy = true
  }
}

# A template of more than 51,200 bytes must be in a bucket.
resource "aws_s3_object" "template" {
  bucket      = var.bucket
  key         = "tidegate/${filesha256(local.template)}.template.json"
  source      = local.template
  source_hash = filesha256(local.template)

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_cloudformation_stack" "tidegate" {
  name         = "tidegate-${var.stage}"
  template_url = "https://${var.bucket}.s3.${data.aws_region.current.id}.${data.aws_partition.current.dns_suffix}/${aws_s3_object.template.key}"
  capabilities = ["CAPABILITY_NAMED_IAM"]
  depends_on   = [aws_s3_object.code]

  parameters = merge(var.parameters, {
    Stage      = var.stage
    CodeBucket = var.bucket
    CodePrefix = local.prefix
  })
}

output "check_function_arn" {
  description = "check_function_arn of the modules rest, http and websocket"
  value       = aws_cloudformation_stack.tidegate.outputs["CheckFunctionArn"]
}

output "outputs" {
  description = "All outputs of the stack, such as DashboardUrl and FirstLogin"
  value       = aws_cloudformation_stack.tidegate.outputs
}

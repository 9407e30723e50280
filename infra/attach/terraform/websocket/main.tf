# Puts Tidegate before a WebSocket API: a REQUEST authorizer of its route $connect, and
# permission for exactly this authorizer. It counts connections, not messages, and a denied
# handshake is answered 403.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "check_function_arn" {
  description = "Output CheckFunctionArn of Tidegate's stack"
  type        = string
}

variable "websocket_api_id" {
  description = "Attribute id of your aws_apigatewayv2_api"
  type        = string
}

variable "websocket_api_execution_arn" {
  description = "Attribute execution_arn of your aws_apigatewayv2_api"
  type        = string
}

data "aws_region" "current" {}

data "aws_partition" "current" {}

resource "aws_apigatewayv2_authorizer" "limits" {
  name            = "tidegate"
  api_id          = var.websocket_api_id
  authorizer_type = "REQUEST"
  authorizer_uri  = "arn:${data.aws_partition.current.partition}:apigateway:${data.aws_region.current.id}:lambda:path/2015-03-31/functions/${var.check_function_arn}/invocations"
}

resource "aws_lambda_permission" "websocket" {
  action        = "lambda:InvokeFunction"
  function_name = var.check_function_arn
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${var.websocket_api_execution_arn}/authorizers/${aws_apigatewayv2_authorizer.limits.id}"
}

output "authorizer_id" {
  description = "authorizer_id of your route $connect, beside authorization_type = CUSTOM"
  value       = aws_apigatewayv2_authorizer.limits.id
}

# Only settings count here: the provider fills in others after it has made a resource.
output "redeployment" {
  description = "One of the triggers of your aws_apigatewayv2_deployment, if the stage has no auto_deploy"
  value = sha1(jsonencode([
    aws_apigatewayv2_authorizer.limits.id,
    aws_apigatewayv2_authorizer.limits.authorizer_uri,
  ]))
}

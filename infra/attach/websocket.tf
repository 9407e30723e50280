# Puts Tidegate before a WebSocket API: a REQUEST authorizer of its route $connect, and
# permission for exactly this authorizer. It counts connections, not messages, and a denied
# handshake is answered 403.

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0"
    }
  }
}

variable "check_function_arn" {
  description = "Output CheckFunctionArn of the Tidegate stack"
  type        = string
}

variable "websocket_api_id" {
  type = string
}

variable "websocket_api_execution_arn" {
  type = string
}

data "aws_region" "current" {}

data "aws_partition" "current" {}

resource "aws_apigatewayv2_authorizer" "limits" {
  name            = "tidegate"
  api_id          = var.websocket_api_id
  authorizer_type = "REQUEST"
  authorizer_uri  = "arn:${data.aws_partition.current.partition}:apigateway:${data.aws_region.current.region}:lambda:path/2015-03-31/functions/${var.check_function_arn}/invocations"
}

resource "aws_lambda_permission" "websocket" {
  action        = "lambda:InvokeFunction"
  function_name = var.check_function_arn
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${var.websocket_api_execution_arn}/authorizers/${aws_apigatewayv2_authorizer.limits.id}"
}

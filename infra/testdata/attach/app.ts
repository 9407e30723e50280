// A CDK app of somebody who attaches Tidegate to both kinds of API. The test reads the
// template that it synthesises into the folder of CDK_OUTDIR.
import { App, Stack } from 'aws-cdk-lib';
import * as apigateway from 'aws-cdk-lib/aws-apigateway';
import * as apigatewayv2 from 'aws-cdk-lib/aws-apigatewayv2';
import { HttpUrlIntegration } from 'aws-cdk-lib/aws-apigatewayv2-integrations';
import { limitHttpApi, limitRestApi } from './cdk';

const check = 'arn:aws:lambda:us-east-1:111122223333:function:tidegate-dev-check';
const stack = new Stack(new App({ analyticsReporting: false }), 'Somebody');

const rest = new apigateway.RestApi(stack, 'Rest', { cloudWatchRole: false });
rest.root.addMethod('GET', new apigateway.MockIntegration(), { authorizer: limitRestApi(stack, 'RestLimits', rest, check) });

const http = new apigatewayv2.HttpApi(stack, 'Http');
const integration = new HttpUrlIntegration('Backend', 'https://backend.example.com');
http.addRoutes({ path: '/', integration, authorizer: limitHttpApi(stack, 'HttpLimits', http, check) });

// An API that this app does not deploy, in a stack of its own: synthesis must warn of it.
const elsewhere = new Stack(stack.node.root as App, 'Elsewhere');
limitRestApi(elsewhere, 'RestLimits', apigateway.RestApi.fromRestApiId(elsewhere, 'Imported', 'abc123'), check);

// An imported HTTP API, whose routes are not below it, beside one that is not limited.
const imported = apigatewayv2.HttpApi.fromHttpApiAttributes(elsewhere, 'ImportedHttp', { httpApiId: 'def456' });
limitHttpApi(elsewhere, 'HttpLimits', imported, check);
for (const [id, httpApi] of Object.entries({ Limited: imported, Free: new apigatewayv2.HttpApi(elsewhere, 'Free') })) {
  const routeKey = apigatewayv2.HttpRouteKey.DEFAULT;
  new apigatewayv2.HttpRoute(elsewhere, `${id}Route`, { httpApi, routeKey, integration: new HttpUrlIntegration(id, `https://${id}.example.com`) });
}

(stack.node.root as App).synth();

<?php

require 'sdk/php/autoload.php';

$client = new Coax\Client(getenv('COAX_BASE_URL'), getenv('COAX_API_KEY'), getenv('COAX_API_SECRET'), getenv('COAX_CA_CERT'));
$subscription = $client->subscription(mobile: '9812345678');
echo "{$subscription->plan->id} $subscription->status $subscription->expiry_date\n";

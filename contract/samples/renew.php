<?php

require 'sdk/php/autoload.php';

$client = new Coax\Client(getenv('COAX_BASE_URL'), getenv('COAX_API_KEY'), getenv('COAX_API_SECRET'), getenv('COAX_CA_CERT'));
$operation = $client->renew([
    'subscriber_id' => '100001',
    'plan_id' => 'FAMILY-1',
], 'order-5002');
echo "$operation->transaction_id $operation->status {$operation->wallet->charged}\n";

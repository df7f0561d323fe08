<?php

require __DIR__ . '/../autoload.php';

$demo = json_decode(file_get_contents('.demo/demo.json'));
$client = new Coax\Client($demo->base_url, $demo->api_key, $demo->api_secret, $demo->ca_cert);
echo $client->balance()->wallet_balance, "\n";
$new = ['full_name' => 'Asha Rao', 'mobile' => '9812345678', 'plan_id' => 'BASIC-1', 'subscriber_id' => '100001'];
echo $client->activate($new, 'order-4710')->customer->subscriber_id, "\n";

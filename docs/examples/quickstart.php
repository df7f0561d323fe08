<?php
require __DIR__ . '/../../sdk/php/autoload.php';

$demo = json_decode(file_get_contents('.demo/demo.json'));
$client = new Coax\Client($demo->base_url, $demo->api_key, $demo->api_secret, $demo->ca_cert);
echo "The wallet holds {$client->balance()->wallet_balance}.\n";

$customer = ['full_name' => 'Asha Rao', 'mobile' => '9812345601', 'plan_id' => 'BASIC-1'];
$done = $client->activate($customer, 'activation-of-order-5001');
echo "{$done->plan->id} until {$done->expiry->new}, {$done->wallet->charged} charged: $done->transaction_id\n";

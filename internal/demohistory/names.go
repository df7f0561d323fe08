package demohistory

import (
	"fmt"
	"math/rand/v2"
)

var (
	firstNames = []string{
		"Aarti", "Abdul", "Ajay", "Amina", "Anil", "Anita", "Arun", "Asha", "Bharat", "Bhavna", "Chandan", "Deepa", "Dinesh",
		"Divya", "Farhan", "Fatima", "Ganesh", "Geeta", "Gurpreet", "Harish", "Hema", "Imran", "Ishita", "Jaya", "Jyoti", "Kamala",
		"Karthik", "Kavita", "Kiran", "Lakshmi", "Lalit", "Madhuri", "Mahesh", "Manjeet", "Mary", "Meena", "Mohan", "Nandini",
		"Naveen", "Neha", "Nitin", "Padma", "Pankaj", "Parveen", "Pooja", "Prakash", "Priya", "Rajesh", "Ramesh", "Rekha", "Rohan",
		"Sabina", "Sanjay", "Sarita", "Seema", "Shankar", "Shreya", "Sunil", "Sunita", "Suresh", "Thomas", "Uma", "Usha", "Varun",
		"Vijay", "Vimala", "Vinod", "Yusuf", "Zainab", "Zubin",
	}
	lastNames = []string{
		"Acharya", "Ansari", "Bhat", "Bose", "Chauhan", "Chowdhury", "D'Souza", "Das", "Desai", "Deshpande", "Fernandes", "Ghosh",
		"Gill", "Gowda", "Gupta", "Hegde", "Iyer", "Jadhav", "Jain", "Joshi", "Kale", "Kapoor", "Khan", "Kulkarni", "Kumar", "Lobo",
		"Mathew", "Mehta", "Menon", "Mishra", "Naidu", "Nair", "Pandey", "Patel", "Patil", "Pawar", "Pillai", "Qureshi", "Rao",
		"Reddy", "Roy", "Saxena", "Sethi", "Shah", "Sharma", "Sheikh", "Shetty", "Shinde", "Singh", "Sinha", "Thakur", "Tiwari",
		"Varghese", "Verma", "Yadav",
	}
	// inDevanagari are names in Devanagari script.
	inDevanagari = []string{
		"सुनीता शर्मा", "रमेश यादव", "अनिता देसाई", "मोहन लाल गुप्ता", "कविता जोशी", "राजेश पाटील", "गीता मिश्रा", "विनोद कुमार सिंह",
	}
	streets = []string{
		"Gandhi Road", "Station Road", "Temple Street", "Nehru Nagar", "Shivaji Chowk", "Lake View Colony", "Market Lane", "Hill Top Road",
	}
)

// nameOf returns a customer's name. Every thirtieth is in Devanagari.
func nameOf(number int, chance *rand.Rand) string {
	if number%30 == 17 {
		return inDevanagari[number/30%len(inDevanagari)]
	}
	return firstNames[chance.IntN(len(firstNames))] + " " + lastNames[chance.IntN(len(lastNames))]
}

// mobileOf returns a customer's mobile number: unique, obviously made up, and without a
// scripted outcome in the simulator.
func mobileOf(number int) string { return fmt.Sprintf("70000%05d", number) }

func addressOf(chance *rand.Rand) string {
	return fmt.Sprintf("%d, %s", 1+chance.IntN(180), streets[chance.IntN(len(streets))])
}
